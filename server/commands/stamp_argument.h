// A stamp as clients give it.
#pragma once

#include <engine/result.h>
#include <engine/types.h>

namespace ebbtide {

/// An integer from 0 to 2^63 - 1, else the error that says so.
Result<DeleteKey> stamp_argument(Bytes text);

}  // namespace ebbtide
