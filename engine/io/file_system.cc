// What is built on the seam alone, the same for every form of it.
#include "io/file_system.h"

#include "io/file_names.h"

namespace ebbtide {

namespace {

Status write_and_sync(FileSystem& fs, const std::string& path, Bytes content) {
  TRY_ASSIGN(file, fs.create(path));
  TRY(file->append(content));
  TRY(file->sync());
  return file->close();
}

}  // namespace

Result<std::string> read_file(FileSystem& fs, const std::string& path) {
  TRY_ASSIGN(file, fs.open(path));
  std::string content(file->size(), '\0');
  TRY(file->read(0, content.size(), content.data()));
  return content;
}

Status write_file_atomically(FileSystem& fs, const std::string& dir, const std::string& name, Bytes content) {
  const std::string path = join_path(dir, name);
  const std::string half_made = path + std::string(kTemporarySuffix);
  // A crash may have left one; its content means nothing.
  if (fs.exists(half_made)) TRY(fs.unlink(half_made));
  Status status = write_and_sync(fs, half_made, content);
  if (status.is_ok()) status = fs.rename(half_made, path);
  if (!status.is_ok()) {
    (void)fs.unlink(half_made);  // best effort: what is reported is why the write failed, and the open deletes leftovers
    return status;
  }
  return fs.sync_dir(dir);
}

}  // namespace ebbtide
