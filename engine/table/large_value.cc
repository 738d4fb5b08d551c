#include "table/large_value.h"

#include <cstring>

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
    return place.corruption("index of a large value does not match its reference");
  }
  for (Bytes rest = *payload; !rest.empty();) {
    std::uint32_t bytes = 0;
    if (!get_u32(&rest, &bytes)) return place.corruption("index of a large value is too short");
    total += padded_block_bytes(bytes, unit);
  }
  if (total != ref.stored_bytes) return place.corruption("chunks of a large value do not fill its extent");
  return Status::ok();
}

Status LargeValueFile::visit(const LargeValueRef& ref, std::uint64_t first, std::uint64_t end, const Chunk& chunk) const {
  std::string index, block;
  Bytes lengths;
  TRY(read_index(ref, &index, &lengths));
  std::uint64_t offset = ref.offset;
  std::uint32_t bytes = 0;
  for (std::uint64_t i = 0; i < end && get_u32(&lengths, &bytes); ++i) {
    const std::uint64_t block_bytes = padded_block_bytes(bytes, unit);
    const BlockPlace place{path, number, offset};
    offset += block_bytes;
    if (i < first) continue;
    block.resize(block_bytes);
    TRY(file->read(place.offset, block.size(), block.data()));
    TRY_ASSIGN(checked, check_block(block, BlockKind::kLargeChunk, place));
    if (checked.payload.size() != bytes)
      return place.corruption("length of a large value's chunk differs from the one in the index");
    TRY(chunk(i, checked, place));
  }
  return Status::ok();
}

Status LargeValueFile::visit(const LargeValueRef& ref,
                             const std::function<Status(const CheckedBlock&, const BlockPlace&)>& chunk) const {
  return visit(ref, 0, large_chunks(ref.length),
               [&](std::uint64_t, const CheckedBlock& block, const BlockPlace& place) { return chunk(block, place); });
}

Status LargeValueFile::decode(const LargeValueRef& ref, std::uint64_t i, const CheckedBlock& block, const BlockPlace& place,
                              char* out) {
  TRY_ASSIGN(bytes, decoded_bytes(block, place));
  if (bytes != large_chunk_bytes(ref.length, i)) return place.corruption("chunk of a large value decodes to a wrong length");
  return decode_block(block, out, bytes, place);
}

Result<std::string> LargeValueFile::read(const LargeValueRef& ref) const {
  std::string value;
  if (ref.length > kMaxValueBytes)
    return BlockPlace{path, number, ref.offset}.corruption("large value is longer than the maximum");
  TRY(visit(ref, 0, large_chunks(ref.length), [&](std::uint64_t i, const CheckedBlock& block, const BlockPlace& place) {
    if (i == 0) value.resize(ref.length);  // the index was checked, so this length is right
    return decode(ref, i, block, place, value.data() + i * kLargeChunkBytes);
  }));
  return value;
}

Status LargeValueFile::copy(const LargeValueRef& ref, std::uint64_t offset, std::span<char> to) const {
  if (to.empty()) return Status::ok();
  std::string decoded;  // a decoded chunk of which only a part is copied
  const std::uint64_t last = offset + to.size() - 1;
  return visit(ref, offset / kLargeChunkBytes, last / kLargeChunkBytes + 1,
               [&](std::uint64_t i, const CheckedBlock& block, const BlockPlace& place) -> Status {
                 const std::uint64_t begin = i * kLargeChunkBytes, bytes = large_chunk_bytes(ref.length, i);
                 if (begin >= offset && begin + bytes - 1 <= last)
                   return decode(ref, i, block, place, to.data() + (begin - offset));
                 decoded.resize(bytes);
                 TRY(decode(ref, i, block, place, decoded.data()));
                 const std::uint64_t from = std::max(begin, offset), until = std::min(begin + bytes - 1, last);
                 std::memcpy(to.data() + (from - offset), decoded.data() + (from - begin), until - from + 1);
                 return Status::ok();
               });
}

Status LargeValueFile::verify(const LargeValueRef& ref) const {
  std::string decoded(std::min<std::uint64_t>(kLargeChunkBytes, ref.length), '\0');
  return visit(ref, 0, large_chunks(ref.length), [&](std::uint64_t i, const CheckedBlock& block, const BlockPlace& place) {
    return decode(ref, i, block, place, decoded.data());
  });
}

}  // namespace ebbtide
