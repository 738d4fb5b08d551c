#include "io/errno_status.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>
#include <system_error>

namespace ebbtide {

Status errno_status(Bytes operation, Bytes path, int error) {
  std::string text(operation);
  text.append(" ").append(path).append(": ").append(std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return Status::not_found(std::move(text));
    case EEXIST:
      return Status::exists(std::move(text));
    case ENOSPC:
    case EDQUOT:
      return Status::no_space(std::move(text));
    case EOPNOTSUPP:
    case ENOSYS:
      return Status::unsupported(std::move(text));
    default:
      return Status::io_error(std::move(text));
  }
}

bool is_file_error(const Status& status) {
  // ext4 and XFS report damaged metadata by EUCLEAN and EBADMSG. The following errors, up to ETIMEDOUT, come from the block
  // layer, and direct reads return them.
  constexpr int kErrors[] = {EIO, EUCLEAN, EBADMSG, ENODATA, EILSEQ, EREMOTEIO, ENOLINK, ETIMEDOUT, EACCES, EPERM};
  if (status.code() != Code::kIoError) return false;
  return std::any_of(std::begin(kErrors), std::end(kErrors), [&](int error) {
    return status.message().find(": " + std::generic_category().message(error)) != Bytes::npos;
  });
}

Status ends_early(Bytes path, std::uint64_t offset, std::size_t length, std::uint64_t end) {
  return Status::corruption("read " + std::string(path) + ": ends at " + std::to_string(end) + ", but " + std::to_string(length) +
                            " bytes at " + std::to_string(offset) + " were expected");
}

}  // namespace ebbtide
