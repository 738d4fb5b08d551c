// Reads large values in parts, for commands that need not have a whole value in memory.
#pragma once

#include <cstdint>
#include <functional>

#include "dispatch/context.h"

namespace ebbtide {

/// The size of a part. After each part, the command ends if its client has disconnected.
inline constexpr std::uint64_t kValuePieceBytes = 1 << 20;

/// Calls `visit` with the bytes [offset, offset + length) of a located value, in order. These bytes must lie within the value.
/// `at` is the part's offset in the value. Off the loop, a large value is read in parts. On the loop all bytes are read at once:
/// kNotResident if they are not in memory. kAborted: the client has disconnected. Other errors are those of `visit` and
/// ReadView::get.
Status visit_value(Ctx& ctx, const Found& found, std::uint64_t offset, std::uint64_t length,
                   const std::function<Status(std::uint64_t at, Bytes piece)>& visit);

/// Copies a located value to `to`, found.length bytes that the caller has reserved (Ctx::reserve). Like visit_value(), but off
/// the loop it charges no further memory.
Status copy_value(Ctx& ctx, const Found& found, char* to);

}  // namespace ebbtide
