#include "import/rdb_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "store/dump.h"
#include "store/rdb.h"

namespace ebbtide {

Result<std::unique_ptr<RdbWriter>> RdbWriter::create(const std::string& path, bool replace) {
  if (!replace && ::access(path.c_str(), F_OK) == 0) return Status::exists(path + " exists; give --force to replace it");
  const std::string part = path + ".part";
  std::FILE* const file = std::fopen(part.c_str(), "wbx");
  if (file == nullptr && errno == EEXIST) {
    return Status::exists(part + " exists: another export writes it, or one was interrupted; then remove it");
  }
  if (file == nullptr) return Status::io_error(part + ": " + std::strerror(errno));
  (void)::fchmod(::fileno(file), S_IRUSR | S_IWUSR);  // readable by the owner only, like the server's files
  return std::unique_ptr<RdbWriter>(new RdbWriter(path, file));
}

RdbWriter::~RdbWriter() {
  std::fclose(file_);
  if (!finished_) (void)std::remove((path_ + ".part").c_str());
}

Status RdbWriter::failed() const { return Status::io_error(path_ + ".part: " + std::strerror(errno)); }

Status RdbWriter::write(Bytes bytes) {
  crc_ = crc64(bytes, crc_);
  bytes_ += bytes.size();
  return std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size() ? Status::ok() : failed();
}

Status RdbWriter::begin(unsigned version) {
  version_ = version;
  char magic[16];
  std::snprintf(magic, sizeof magic, "REDIS%04u", version);
  return write(magic);
}

// The payload of a hash with fields that expire has a newer RDB version than others. The file has the older version, so that more
// servers load it: a server that does not know the type of such a hash fails at that entry in any case.
Status RdbWriter::add(const RdbEntry& entry, unsigned version) {
  if (version == kFieldExpiryRdbVersion) version = kWrittenRdbVersion;
  if (version_ == 0) TRY(begin(version));
  if (version != version_) {
    return Status::invalid_argument("the server's payloads have RDB versions " + std::to_string(version_) + " and " +
                                    std::to_string(version) + "; was it restarted meanwhile?");
  }
  std::string head;
  if (database_ != entry.database) {
    database_ = entry.database;
    head.push_back('\xfe');
    append_rdb_length(&head, entry.database);
  }
  if (entry.expiry_ms) {
    head.push_back('\xfc');
    append_little(&head, static_cast<std::uint64_t>(*entry.expiry_ms), 8);
  }
  head.push_back(static_cast<char>(entry.type));
  append_rdb_string(&head, entry.key);
  TRY(write(head));
  return write(entry.value);
}

Status RdbWriter::finish() {
  if (version_ == 0) TRY(begin(kWrittenRdbVersion));
  TRY(write("\xff"));
  std::string crc;
  append_little(&crc, crc_, 8);
  TRY(write(crc));
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) return failed();
  if (std::rename((path_ + ".part").c_str(), path_.c_str()) != 0) return failed();
  finished_ = true;
  return Status::ok();
}

}  // namespace ebbtide
