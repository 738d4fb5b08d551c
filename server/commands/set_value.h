// The implementation of SET, for all commands with SET's options.
#pragma once

#include <cstddef>

#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

struct Ctx;

/// Sets the command's key to argument `value_arg`, with the options of SET in the arguments after it. Replies as SET does.
/// `stamp`: the value's stamp, or kNoStamp.
Status set_value(Ctx& ctx, std::size_t value_arg, DeleteKey stamp);

}  // namespace ebbtide
