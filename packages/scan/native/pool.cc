#include "pool.h"

#include <algorithm>

namespace hers {

Pool::Pool(size_t threads) : count_(threads) {
  threads_.reserve(threads);
  try {
    for (size_t i = 0; i < threads; i++) threads_.emplace_back([this] { work(); });
  } catch (...) {
    shutDown();
    throw;
  }
}

bool Pool::take(std::shared_ptr<Scan>& scan, Task& task) {
  for (size_t i = 0; i < scans_.size(); i++) {
    const size_t turn = (turn_ + i) % scans_.size();
    if (!scans_[turn]->take(task)) continue;
    scan = scans_[turn];
    turn_ = turn + 1;
    return true;
  }
  return false;
}

/**
 * Removes finished scans, and reports them without the mutex. Returns true if there were any: then
 * something may have begun in the meantime.
 */
bool Pool::retireOver(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Scan>> over;
  const auto from = std::stable_partition(scans_.begin(), scans_.end(), [](const auto& scan) { return !scan->isOver(); });
  over.assign(from, scans_.end());
  scans_.erase(from, scans_.end());
  if (over.empty()) return false;
  lock.unlock();
  for (const auto& scan : over) scan->end();
  over.clear();
  lock.lock();
  return true;
}

void Pool::work() {
  Scratch scratch;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (!chores_.empty()) {
      const auto chore = std::move(chores_.back());
      chores_.pop_back();
      lock.unlock();
      chore();
      lock.lock();
      continue;
    }
    std::shared_ptr<Scan> scan;
    Task task;
    if (take(scan, task)) {
      lock.unlock();
      scan->perform(task, scratch);
      lock.lock();
      scan->finish(task);
      retireOver(lock);
      wake_.notify_all();
      continue;
    }
    // The receiver of an ending may start the next scan at once, before this thread waits. So it
    // checks again before it waits.
    if (retireOver(lock)) continue;
    if (ending_) return;
    if (scans_.empty()) scratch.release();
    wake_.wait(lock);
  }
}

void Pool::start(std::shared_ptr<Scan> scan) {
  std::unique_lock<std::mutex> lock(mutex_);
  scans_.push_back(std::move(scan));
  if (ending_) scans_.back()->stop();
  retireOver(lock);
  wake_.notify_all();
}

void Pool::stop(Scan& scan) {
  std::unique_lock<std::mutex> lock(mutex_);
  scan.stop();
  retireOver(lock);
}

void Pool::release(Scan& scan) {
  std::unique_lock<std::mutex> lock(mutex_);
  scan.release();
  wake_.notify_all();
}

void Pool::run(std::function<void()> chore) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!ending_) {
      chores_.push_back(std::move(chore));
      wake_.notify_all();
      return;
    }
  }
  chore();
}

void Pool::shutDown() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ending_ = true;
    for (const auto& scan : scans_) scan->stop();
    retireOver(lock);
    wake_.notify_all();
  }
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace hers
