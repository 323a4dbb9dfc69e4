// How kept responses go from the addon that scans to one that decrypts, through JavaScript: as an
// external value that points to a HersCudaKept and carries this tag. Both are in one process, and
// neither knows the other.

#pragma once

#include <node_api.h>

#include "hers_cuda.h"

namespace hers {

constexpr napi_type_tag kKeptTag = {0x6865727363756461, 0x6b65707400000001};

}  // namespace hers
