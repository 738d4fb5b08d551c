#include <engine/status.h>

namespace ebbtide {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kNotFound:
      return "not found";
    case Code::kNotResident:
      return "not resident";
    case Code::kRetry:
      return "retry";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kCorruption:
      return "corruption";
    case Code::kIoError:
      return "I/O error";
    case Code::kNoSpace:
      return "no space";
    case Code::kOutOfMemory:
      return "out of memory";
    case Code::kReadOnly:
      return "read only";
    case Code::kRevoked:
      return "revoked";
    case Code::kBusy:
      return "busy";
    case Code::kExists:
      return "exists";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kAborted:
      return "aborted";
    case Code::kUnknownOutcome:
      return "unknown outcome";
  }
  return "unknown code";
}

std::string Status::to_string() const {
  std::string out = code_name(code_);
  if (!message().empty()) out.append(": ").append(message());
  return out;
}

Status Status::with_context(Bytes context) const {
  if (is_ok()) return {};
  std::string text(context);
  if (!message().empty()) text.append(": ").append(message());
  Status status(code_, std::move(text));
  status.refused_kib_ = refused_kib_;
  return status;
}

}  // namespace ebbtide
