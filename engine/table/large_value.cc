#include "table/large_value.h"

#include "base/coding.h"

namespace ebbtide {

Status LargeValueFile::read_index(const LargeValueRef& ref, std::string* block, Bytes* payload) const {
  const BlockPlace extent{path, number, ref.offset};
  const std::uint64_t index_block = padded_block_bytes(large_index_bytes(ref.length), unit);
  if (ref.length > kMaxValueBytes || ref.stored_bytes > data_bytes || ref.offset > data_bytes - ref.stored_bytes ||
      index_block > ref.stored_bytes) {
    return extent.corruption("reference to a large value is out of range");
  }
  const BlockPlace place{path, number, ref.offset + ref.stored_bytes - index_block};
  block->resize(index_block);
  TRY(file->read(place.offset, block->size(), block->data()));
  TRY_ASSIGN(checked, check_block(*block, BlockKind::kLargeIndex, place));
  *payload = checked.payload;
  std::uint64_t length = 0, total = index_block;
  if (payload->size() != large_index_bytes(ref.length) || !get_u64(payload, &length) || length != ref.length) {
    return place.corruption("index of a large value does not fit its reference");
  }
  for (Bytes rest = *payload; !rest.empty();) {
    std::uint32_t bytes = 0;
    if (!get_u32(&rest, &bytes)) return place.corruption("index of a large value is too short");
    total += padded_block_bytes(bytes, unit);
  }
  if (total != ref.stored_bytes) return place.corruption("chunks of a large value do not fill its extent");
  return Status::ok();
}

Status LargeValueFile::visit(const LargeValueRef& ref,
                             const std::function<Status(const CheckedBlock&, const BlockPlace&)>& chunk) const {
  std::string index, block;
  Bytes lengths;
  TRY(read_index(ref, &index, &lengths));
  std::uint64_t offset = ref.offset;
  std::uint32_t bytes = 0;
  while (get_u32(&lengths, &bytes)) {
    block.resize(padded_block_bytes(bytes, unit));
    const BlockPlace place{path, number, offset};
    TRY(file->read(offset, block.size(), block.data()));
    TRY_ASSIGN(checked, check_block(block, BlockKind::kLargeChunk, place));
    if (checked.payload.size() != bytes) return place.corruption("chunk of a large value has another length than its index says");
    TRY(chunk(checked, place));
    offset += block.size();
  }
  return Status::ok();
}

Result<std::string> LargeValueFile::read(const LargeValueRef& ref) const {
  std::string value;
  if (ref.length > kMaxValueBytes)
    return BlockPlace{path, number, ref.offset}.corruption("large value is longer than any may be");
  std::uint64_t at = 0;
  TRY(visit(ref, [&](const CheckedBlock& chunk, const BlockPlace& place) -> Status {
    if (at == 0) value.resize(ref.length);
    const std::size_t expected = std::min<std::uint64_t>(kLargeChunkBytes, ref.length - at);
    TRY_ASSIGN(bytes, decoded_bytes(chunk, place));
    if (bytes != expected) return place.corruption("chunk of a large value decodes to a wrong length");
    TRY(decode_block(chunk, value.data() + at, bytes, place));
    at += bytes;
    return Status::ok();
  }));
  if (at != ref.length) return BlockPlace{path, number, ref.offset}.corruption("large value is incomplete");
  return value;
}

}  // namespace ebbtide
