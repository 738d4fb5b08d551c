// Reads values piece by piece, for commands that do not need all of a large value in memory at once.
#pragma once

#include <cstdint>
#include <functional>

#include "dispatch/context.h"

namespace ebbtide {

/// The size of a piece. After each piece the command checks whether its client is still connected.
inline constexpr std::uint64_t kValuePieceBytes = 1 << 20;

/// Calls `visit` with the bytes [offset, offset + length) of a located value, in order; they must lie within it. `at` is the
/// piece's offset in the value. Off the loop, a large value is read piece by piece. On the loop all bytes are read at once;
/// kNotResident if they are not in memory. kAborted once the client has disconnected. Other errors are those of `visit` and of
/// ReadView::get.
Status visit_value(Ctx& ctx, const Found& found, std::uint64_t offset, std::uint64_t length,
                   const std::function<Status(std::uint64_t at, Bytes piece)>& visit);

/// Copies a located value to memory of found.length bytes, which the caller has reserved (Ctx::reserve). Like visit_value(), but
/// off the loop it charges nothing else.
Status copy_value(Ctx& ctx, const Found& found, char* to);

}  // namespace ebbtide
