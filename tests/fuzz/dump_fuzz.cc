// Fuzzes payloads of RESTORE: any bytes are refused, or give a value that DUMP writes and RESTORE reads as the same value. The
// memory of a collection is reserved before it is allocated.
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "fuzz.h"
#include "store/collection/compact.h"
#include "store/dump.h"
#include "store/dump_collections.h"

namespace {

using namespace ebbtide;

// Bytes that operator new has allocated and that are not freed, and the most that they may be.
std::size_t allocated = 0, allowed = ~std::size_t{0};

bool is_well_formed(Bytes collection) {
  switch (collection_type_of(collection).value()) {
    case CollectionType::kHash:
      return decode_hash(collection).is_ok();
    case CollectionType::kSet:
      return decode_set(collection).is_ok();
    case CollectionType::kSortedSet:
      return decode_sorted_set(collection).is_ok();
    case CollectionType::kList:
      return decode_list(collection).is_ok();
  }
  return false;
}

void check_string(Bytes payload) {
  const std::uint64_t announced = loaded_bytes(payload);
  const auto text = load_string(payload);
  if (!text) return;
  FUZZ_CHECK(announced == 0 || announced == text->size());
  FUZZ_CHECK(load_string(dump_string(*text)) == text);
}

void check_collection(Bytes payload) {
  std::uint64_t reserved = 0;
  constexpr std::size_t kFree = kLargeValueBytes + (4u << 10);  // the latter for the text of a score, the message of an error
  const auto reserve = [&](std::uint64_t bytes) {
    reserved += bytes;
    allowed += bytes;
    return Status::ok();
  };
  allowed = allocated + kFree;
  const auto collection = load_collection(payload, reserve);
  allowed = ~std::size_t{0} / 2;
  FUZZ_CHECK(reserved < 512u << 20);
  if (!collection.is_ok()) return;
  FUZZ_CHECK(is_well_formed(*collection));
  FUZZ_CHECK(collection->size() <= kMaxBuiltBytes);
  const auto again = dump_collection(*collection);
  FUZZ_CHECK(again.is_ok() && dump_is_sound(*again));
  FUZZ_CHECK(again->size() <= most_dump_bytes(collection->size()));
  const auto same = load_collection(*again, reserve);
  FUZZ_CHECK(same.is_ok() && *same == *collection);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  allocated += malloc_usable_size(memory);
  FUZZ_CHECK(allocated <= allowed);
  return memory;
}
void operator delete(void* memory) noexcept {
  allocated -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

// The input is a payload without version and checksum.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes input(reinterpret_cast<const char*>(data), size);
  FUZZ_CHECK(!dump_is_sound(input) || size >= 10);
  std::string payload(input);
  end_dump(&payload);
  FUZZ_CHECK(dump_is_sound(payload));
  const DumpedType type = dumped_type(payload);
  check_string(payload);
  check_collection(payload);
  FUZZ_CHECK(type != DumpedType::kString || !load_collection(payload, [](std::uint64_t) { return Status::ok(); }).is_ok());
  return 0;
}
