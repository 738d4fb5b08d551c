// Functions that only use the FileSystem interface, so that they are the same for every implementation.
#include "io/file_system.h"

#include <algorithm>

#include "base/coding.h"
#include "base/planted_bug.h"
#include "base/random.h"
#include "io/file_names.h"

namespace ebbtide {

namespace {

Status write_and_sync(FileSystem& fs, const std::string& path, Bytes content) {
  TRY_ASSIGN(file, fs.create(path));
  TRY(file->append(content));
  TRY(file->sync());
  return file->close();
}

Status copy_bytes(const RandomAccessFile& in, std::uint64_t offset, std::uint64_t length, WritableFile* out) {
  constexpr std::uint64_t kCopyBytes = std::uint64_t{1} << 20;
  std::string buffer(static_cast<std::size_t>(std::min(length, kCopyBytes)), '\0');
  for (const std::uint64_t end = offset + length; offset < end;) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(end - offset, buffer.size()));
    TRY(in.read(offset, part, buffer.data()));
    TRY(out->append(Bytes(buffer).substr(0, part)));
    offset += part;
  }
  TRY(out->sync());
  return out->close();
}

/// Writes a file of bytes that cannot be compressed, since some file systems store zeros in less space.
Status write_incompressible(FileSystem& fs, const std::string& path, std::uint64_t bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
  TRY_ASSIGN(file, fs.create(path));
  Random random(bytes);
  std::string piece(kPieceBytes, '\0');
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes - done)));
    for (std::size_t at = 0; at + 8 <= piece.size(); at += 8) store_fixed(piece.data() + at, random.next());
    TRY(file->append(piece));
  }
  TRY(file->sync());
  return file->close();
}

}  // namespace

Status FileSystem::allocate(const std::string& path, std::uint64_t bytes) {
  if (exists(path)) return Status::exists("allocate " + path + ": File exists");
  Status status = write_incompressible(*this, path, bytes);
  if (!status.is_ok()) (void)unlink(path);
  return status;
}

Result<std::string> read_file(FileSystem& fs, const std::string& path, std::uint64_t max_bytes) {
  TRY_ASSIGN(file, fs.open(path));
  if (file->size() > max_bytes) {
    return Status::corruption("read " + path + ": has " + std::to_string(file->size()) + " bytes; at most " +
                              std::to_string(max_bytes) + " are expected");
  }
  std::string content(file->size(), '\0');
  TRY(file->read(0, content.size(), content.data()));
  return content;
}

Status copy_file(FileSystem& fs, const std::string& from, const std::string& to, std::uint64_t length, std::uint64_t offset) {
  TRY_ASSIGN(in, fs.open(from));
  if (offset > in->size() || length > in->size() - offset) {
    return Status::corruption("copy " + from + ": has " + std::to_string(in->size()) + " bytes, fewer than the " +
                              std::to_string(offset + length) + " that are expected");
  }
  TRY_ASSIGN(out, fs.create(to));
  Status status = copy_bytes(*in, offset, length, out.get());
  if (status.is_ok()) return status;
  out.reset();
  (void)fs.unlink(to);  // an error of the unlink is ignored: the caller gets the error of the copy
  return status;
}

Status write_file_atomically(FileSystem& fs, const std::string& dir, const std::string& name, Bytes content) {
  const std::string path = join_path(dir, name);
  const std::string half_made = planted(PlantedBug::kReplaceInPlace) ? path : path + std::string(kTemporarySuffix);
  // A crash may have left this file; its content has no meaning.
  if (fs.exists(half_made)) TRY(fs.unlink(half_made));
  Status status = write_and_sync(fs, half_made, content);
  if (status.code() == Code::kExists) {  // the name is a symbolic link to nothing, for which exists() is false
    TRY(fs.unlink(half_made));
    status = write_and_sync(fs, half_made, content);
  }
  if (status.is_ok()) status = fs.rename(half_made, path);
  if (!status.is_ok()) {
    (void)fs.unlink(half_made);  // ignores an error: the caller gets the write's error, and the next open removes the file
    return status;
  }
  return planted(PlantedBug::kUnlinkBeforeRenameIsDurable) ? Status::ok() : fs.sync_dir(dir);
}

}  // namespace ebbtide
