// Fuzzes log segments: a segment is read as in recovery, with its batches and operations, and printed. Cut at its torn end, it
// reads the same again.
//
// The first byte chooses whether checksums are corrected. If not, the other bytes are a literal segment, and its file has the
// name that its header implies, so that any segment of any database is an input.
#include <vector>

#include <engine/write_batch.h>
#include "base/checksum.h"
#include "base/coding.h"
#include "fuzz.h"
#include "inspections.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "version/manifest.h"
#include "version/version_state.h"
#include "wal/batch_group.h"
#include "wal/log_format.h"
#include "wal/log_reader.h"

namespace {

using namespace ebbtide;

constexpr FileNum kFile = 7;

/// Returns a segment: a header, then the input as records with correct checksums.
std::string mended(std::string body) {
  std::string segment;
  put_u32(&segment, kLogMagic);
  put_u32(&segment, kLogVersion);
  put_u64(&segment, kFile);
  put_u64(&segment, 0);
  put_u64(&segment, block_checksum(segment, kFile, 0));
  segment += body;
  for (std::size_t at = kLogHeaderBytes; at + kLogRecordHeaderBytes <= segment.size();) {
    Bytes in = Bytes(segment).substr(at);
    std::uint32_t length = 0;
    get_u32(&in, &length);
    const std::size_t payload = length & ~kLogMarkFlag;
    if (payload > segment.size() - at - kLogRecordHeaderBytes) break;
    BlockChecksummer sum(kFile, at);
    sum.update(Bytes(segment).substr(at, 4));
    sum.update(Bytes(segment).substr(at + kLogRecordHeaderBytes, payload));
    fuzz::set_number(&segment, at + 4, sum.digest());
    at += kLogRecordHeaderBytes + payload;
  }
  return segment;
}

/// Returns the file number in a segment's header, if it is valid.
FileNum number_in_header(Bytes segment) {
  constexpr std::size_t kNumber = 8;
  std::uint64_t number = 0;
  if (segment.size() < kLogHeaderBytes) return kFile;
  segment.remove_prefix(kNumber);
  get_u64(&segment, &number);
  return number == kNoFile || number > kMaxFileNum ? kFile : number;
}

/// Writes a manifest without tables whose log begins with `file`.
void make_manifest(FileSystem& fs, FileNum file) {
  VersionState state;
  state.oldest_log = file;
  std::string record;
  snapshot(state).encode(&record);
  FUZZ_CHECK(ManifestWriter::create(fs, "d", 1, record).is_ok() && write_current(fs, "d", 1).is_ok());
}

std::vector<std::string> records(FileSystem& fs, FileNum number, Result<LogEnd>* end, LogPieces* pieces = nullptr) {
  std::vector<std::string> found;
  const auto on_record = [&](std::string payload, std::uint64_t) {
    found.push_back(std::move(payload));
    return Status::ok();
  };
  *end = read_log(fs, "d", number, on_record, {}, pieces);
  return found;
}

Status visit_batch(Bytes payload) {
  auto batch = WriteBatch::parse(std::string(payload));
  if (!batch.is_ok()) return Status::ok();
  WriteBatch::Op op;
  std::uint32_t operations = 0;
  for (std::size_t cursor = 0; batch->next_op(&cursor, &op);) ++operations;
  FUZZ_CHECK(operations == batch->count());
  std::vector<Bytes> pieces;
  batch->append_payload(&pieces);
  std::string again;
  for (const Bytes piece : pieces) again += piece;
  FUZZ_CHECK(WriteBatch::parse(again).is_ok());
  return Status::ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const bool mend = (input.byte() & 1) != 0;
  std::string content(input.rest());
  if (mend) content = mended(std::move(content));
  const FileNum number = number_in_header(content);
  MemoryFileSystem fs;
  FUZZ_CHECK(fs.create_dir("d").is_ok());
  auto file = fs.create(join_path("d", log_file_name(number)));
  FUZZ_CHECK((*file)->append(content).is_ok());
  file->reset();
  for (const bool values : {false, true}) fuzz::check_inspection(inspect_wal(fs, "d", values));
  make_manifest(fs, number);
  fuzz::inspect_directory(fs, "d");
  Result<LogEnd> end = Status::ok();
  LogPieces pieces(fs, "d", number);  // batches in pieces arrive as groups
  for (const std::string& record : records(fs, number, &end, &pieces)) (void)each_batch(record, visit_batch);
  const std::vector<std::string> found = records(fs, number, &end);
  for (const std::string& record : found) (void)each_batch(record, visit_batch);
  if (!end.is_ok()) return 0;
  FUZZ_CHECK(end->valid_bytes <= content.size());
  if (end->clean || end->valid_bytes == 0) return 0;
  FUZZ_CHECK(cut_log(fs, "d", number, end->valid_bytes).is_ok());
  FUZZ_CHECK(records(fs, number, &end) == found);
  FUZZ_CHECK(end.is_ok() && end->clean);
  return 0;
}
