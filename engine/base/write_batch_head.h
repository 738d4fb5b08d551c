// The part of an operation in a batch's payload that precedes its value: for readers of batches that do not fit into memory.
#pragma once

#include <cstdint>

#include <engine/write_batch.h>

namespace ebbtide {

/// Decodes one operation of a payload up to its value, and takes that from `in`. Sets the value's length; 0 = it has none. False if
/// the bytes are too short or not an operation.
bool decode_operation_head(Bytes* in, WriteBatch::Op* op, std::uint64_t* value_length);

}  // namespace ebbtide
