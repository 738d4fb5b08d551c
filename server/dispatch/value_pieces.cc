#include "dispatch/value_pieces.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ebbtide {
namespace {

Status may_go_on(const Ctx& ctx) { return ctx.is_cancelled() ? Status::aborted("the client has disconnected") : Status::ok(); }

}  // namespace

Status visit_value(Ctx& ctx, const Found& found, std::uint64_t offset, std::uint64_t length,
                   const std::function<Status(std::uint64_t at, Bytes piece)>& visit) {
  const bool streams = found.large.table != nullptr && ctx.view.mode() == ReadMode::kBlocking;
  ValuePart part;
  std::string buffer;
  if (streams) {
    buffer.resize(std::min(kValuePieceBytes, length));
  } else {
    TRY(ctx.view.read_part(found, offset, length, &part));
  }
  for (std::uint64_t done = 0; done < length;) {
    TRY(may_go_on(ctx));
    const std::uint64_t bytes = std::min(kValuePieceBytes, length - done);
    Bytes piece = part.bytes.substr(streams ? 0 : done, bytes);
    if (streams) {
      TRY(ctx.view.copy_part(found, offset + done, {buffer.data(), bytes}));
      piece = Bytes(buffer).substr(0, bytes);
    }
    TRY(visit(offset + done, piece));
    done += bytes;
  }
  return Status::ok();
}

Status copy_value(Ctx& ctx, const Found& found, char* to) {
  if (found.large.table == nullptr || ctx.view.mode() != ReadMode::kBlocking) {
    return visit_value(ctx, found, 0, found.length, [to](std::uint64_t at, Bytes piece) {
      std::memcpy(to + at, piece.data(), piece.size());
      return Status::ok();
    });
  }
  for (std::uint64_t at = 0; at < found.length; at += kValuePieceBytes) {
    TRY(may_go_on(ctx));
    TRY(ctx.view.copy_part(found, at, {to + at, std::min(kValuePieceBytes, found.length - at)}));
  }
  return Status::ok();
}

}  // namespace ebbtide
