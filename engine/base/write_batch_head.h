// Decodes the part of an operation before its value, for readers of batches that do not fit into memory.
#pragma once

#include <cstdint>

#include <engine/write_batch.h>

namespace ebbtide {

/// Decodes one operation of a WriteBatch payload up to its value, and removes these bytes from `in`. Sets `*value_length`, the
/// length of the value that follows; 0 = no value. Returns false if the bytes are too short or not an operation.
bool decode_operation_head(Bytes* in, WriteBatch::Op* op, std::uint64_t* value_length);

}  // namespace ebbtide
