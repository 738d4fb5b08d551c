// Values a piece at a time, for commands that need not have all of a large one in memory at once.
#pragma once

#include <cstdint>
#include <functional>

#include "dispatch/context.h"

namespace ebbtide {

/// Bytes of a value between two looks whether the client is still there; and the memory that a value is read through.
inline constexpr std::uint64_t kValuePieceBytes = 1 << 20;

/// Calls `visit` with the bytes [offset, offset + length) of a located value, in order; they must lie within it. `at` is where
/// the piece begins in the value. Off the loop, a large value is read a piece at a time; on it, all the bytes are wanted at once
/// and may be kNotResident. kAborted once the client has gone. Other errors: of `visit`, and as of ReadView::get.
Status visit_value(Ctx& ctx, const Found& found, std::uint64_t offset, std::uint64_t length,
                   const std::function<Status(std::uint64_t at, Bytes piece)>& visit);

/// Copies a located value to where its caller has found.length bytes, and has reserved them (Ctx::reserve). As visit_value, but
/// nothing else is charged off the loop.
Status copy_value(Ctx& ctx, const Found& found, char* to);

}  // namespace ebbtide
