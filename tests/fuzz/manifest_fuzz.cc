// Fuzzes the manifest: it is read as in open() and printed. An edit that decodes can be encoded and decoded to the same edit.
#include "base/checksum.h"
#include "base/coding.h"
#include "fuzz.h"
#include "inspections.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "version/manifest.h"
#include "version/version_state.h"

namespace {

using namespace ebbtide;

constexpr FileNum kFile = 5;

/// Writes each text of the input as a record with a correct checksum, and some seals.
std::string manifest_of(fuzz::Input& input) {
  std::string out;
  put_u32(&out, kManifestMagic);
  put_u32(&out, kManifestVersion);
  put_u64(&out, kFile);
  put_u64(&out, block_checksum(out, kFile, 0));
  while (!input.empty()) {
    const std::uint8_t kind = input.byte();
    const std::size_t at = out.size();
    if (kind % 8 == 7) {
      out += "SEAL";
      put_u64(&out, block_checksum("SEAL", kFile, at));
      continue;
    }
    const Bytes payload = input.text(kind % 8 == 0 ? input.number() % 70'000 : input.byte());
    std::string length;
    put_u32(&length, static_cast<std::uint32_t>(payload.size()));
    BlockChecksummer sum(kFile, at);
    sum.update(length);
    sum.update(payload);
    out += length;
    put_u64(&out, sum.digest());
    out += payload;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool mend = (input.byte() & 1) != 0;
  const std::string content = mend ? manifest_of(input) : std::string(input.rest());
  MemoryFileSystem fs;
  FUZZ_CHECK(fs.create_dir("d").is_ok());
  auto file = fs.create(join_path("d", manifest_file_name(kFile)));
  FUZZ_CHECK((*file)->append(content).is_ok());
  file->reset();
  FUZZ_CHECK(write_current(fs, "d", kFile).is_ok());
  fuzz::check_inspection(inspect_manifest(fs, "d"));
  fuzz::inspect_directory(fs, "d");
  StateBuilder builder;
  bool whole = true;
  const auto end = read_manifest(fs, "d", kFile, [&](Bytes payload, std::uint64_t) -> Status {
    auto edit = VersionEdit::decode(payload);
    if (!edit.is_ok()) return whole = false, edit.status();
    std::string again;
    edit->encode(&again);
    const auto same = VersionEdit::decode(again);
    FUZZ_CHECK(same.is_ok() && *same == *edit);
    (void)edit->to_text();
    const Status added = builder.add(*edit);
    whole = added.is_ok();
    return added;
  });
  if (!end.is_ok() || !whole) return 0;
  const auto state = builder.finish();
  if (!state.is_ok()) return 0;
  std::string record;
  snapshot(*state).encode(&record);
  FUZZ_CHECK(VersionEdit::decode(record).is_ok());
  return 0;
}
