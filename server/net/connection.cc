#include "net/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "resp/reply.h"

namespace ebbtide {
namespace {

constexpr int kPieces = 64;
constexpr std::size_t kSendPerRound = 4 << 20;  // the most bytes sent per round, so that other connections have their turn
constexpr int kBigReads = 8;  // the most receives of big bulks per round, so that other connections have their turn
constexpr std::size_t kCommandsPerRound = 4096;
constexpr int kRecordsPerRound = 64;  // the most TLS records per round: a megabyte

}  // namespace

Connection::~Connection() {
  if (fd >= 0) ::close(fd);
}

Connection::Io Connection::shake_hands() {
  switch (tls->shake_hands()) {
    case TlsStream::Io::kOk:
      return Io::kOk;
    case TlsStream::Io::kWaitsToRead:
      readable = peer_ended;  // epoll reports the end of input only once, so the next receive must find it
      return peer_ended ? Io::kError : Io::kBlocked;
    case TlsStream::Io::kWaitsToWrite:
      writable = false;  // the handshake continues when the socket takes bytes
      return Io::kBlocked;
    default:
      return Io::kError;
  }
}

// A record has at most 16 KiB, and the stream may already have parts of the next records. For a short input, kLittleBytes spares
// the second call that would find the stream empty.
Connection::Io Connection::receive_decrypted(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters) {
  constexpr std::size_t kRecordOverhead = 64;  // at least the bytes of a TLS record's header and trailer
  const bool begins_empty = !tls->has_more();
  std::size_t received = 0;
  for (int round = 0; round < kRecordsPerRound; ++round) {
    const bool big = parser.big_missing() > 0;
    const std::span<char> room = big ? scratch : parser.room(limits);
    std::size_t n = 0;
    const TlsStream::Io io = tls->read(room, &n);
    counters.reads.add(1);
    if (io == TlsStream::Io::kWaitsToRead) return readable = false, round == 0 ? Io::kBlocked : Io::kOk;
    if (io == TlsStream::Io::kWaitsToWrite) return writable = false, Io::kBlocked;
    if (io == TlsStream::Io::kEnd) return end_of_input = true, readable = false, Io::kEnd;
    if (io == TlsStream::Io::kError) return Io::kError;
    counters.bytes_in.add(n);
    if (big) {
      parser.feed(Bytes(room.data(), n), limits);
    } else {
      parser.received(n);
    }
    if (n == room.size()) break;
    received += n + kRecordOverhead;
    if (begins_empty && received < TlsStream::kLittleBytes && !tls->has_more()) return readable = peer_ended, Io::kOk;
  }
  return Io::kOk;
}

Connection::Io Connection::send_encrypted(std::uint64_t limit, LoopCounters& counters) {
  thread_local std::array<char, TlsStream::kRecordBytes> record;
  for (std::size_t sent = 0; out.begin() < limit && sent < kSendPerRound;) {
    iovec pieces[kPieces];
    const int count = out.pieces(pieces, kPieces, limit);
    const std::size_t most = unfinished_write != 0 ? unfinished_write : record.size();
    std::size_t size = 0;
    for (int i = 0; i < count && size < most; ++i) {
      const std::size_t part = std::min(pieces[i].iov_len, most - size);
      std::memcpy(record.data() + size, pieces[i].iov_base, part);
      size += part;
    }
    std::size_t n = 0;
    const TlsStream::Io io = tls->write(std::span<const char>(record.data(), size), &n);
    counters.writes.add(1);
    if (io == TlsStream::Io::kWaitsToWrite || io == TlsStream::Io::kWaitsToRead) {
      unfinished_write = size;
      return writable = false, Io::kBlocked;
    }
    if (io != TlsStream::Io::kOk) return Io::kError;
    unfinished_write = 0;
    counters.bytes_out.add(n);
    out.consume(n);
    sent += n;
  }
  return Io::kOk;
}

void Connection::send_at_once(Bytes error) {
  if (!out.empty() || !writable) return;
  std::size_t n = 0;
  if (tls == nullptr) {
    (void)!::send(fd, error.data(), error.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } else if (tls->established()) {
    (void)tls->write(std::span<const char>(error.data(), error.size()), &n);
  }
}

void Connection::end_output() {
  if (tls != nullptr) tls->close();
  ::shutdown(fd, SHUT_WR);
}

Connection::Io Connection::receive(const ParserLimits& limits, std::span<char> scratch, LoopCounters& counters) {
  if (tls != nullptr) return receive_decrypted(limits, scratch, counters);
  for (int round = 0;; ++round) {
    const bool big = parser.big_missing() > 0;
    const std::span<char> room = big ? scratch : parser.room(limits);
    const ssize_t n = ::recv(fd, room.data(), room.size(), MSG_DONTWAIT);
    counters.reads.add(1);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return readable = false, Io::kBlocked;
      return Io::kError;
    }
    if (n == 0) {
      end_of_input = true;
      readable = false;
      return Io::kEnd;
    }
    counters.bytes_in.add(static_cast<std::uint64_t>(n));
    if (big) {
      parser.feed(Bytes(room.data(), static_cast<std::size_t>(n)), limits);
    } else {
      parser.received(static_cast<std::size_t>(n));
    }
    // If fewer bytes came than requested, the socket is empty, and epoll will report later input. But the end of input is
    // reported only once, so after it the socket must be read again.
    if (static_cast<std::size_t>(n) < room.size()) return readable = peer_ended, Io::kOk;
    if (!big || round >= kBigReads || parser.big_missing() == 0) return Io::kOk;
  }
}

std::uint64_t Connection::send_limit(std::uint64_t durable_seq) const {
  for (const Gate& gate : gates) {
    if (gate.seq > durable_seq) return gate.from;
  }
  return out.end();
}

void Connection::open_gates(std::uint64_t durable_seq) {
  while (!gates.empty() && gates.front().seq <= durable_seq) gates.pop_front();
}

Connection::Io Connection::send(std::uint64_t durable_seq, LoopCounters& counters) {
  open_gates(durable_seq);
  const std::uint64_t limit = gates.empty() ? out.end() : gates.front().from;
  if (tls != nullptr) return send_encrypted(limit, counters);
  std::size_t sent = 0;
  while (out.begin() < limit && sent < kSendPerRound) {
    iovec pieces[kPieces];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<std::size_t>(out.pieces(pieces, kPieces, limit));
    const ssize_t n = message.msg_iovlen == 1 ? ::send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                                              : ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    counters.writes.add(1);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return writable = false, Io::kBlocked;
      return Io::kError;
    }
    counters.bytes_out.add(static_cast<std::uint64_t>(n));
    out.consume(static_cast<std::size_t>(n));
    sent += static_cast<std::size_t>(n);
  }
  return Io::kOk;
}

void Connection::hand_in(const ParserLimits& limits, std::vector<PendingCommand>* pass) {
  waiting = false;
  if (!pending.empty()) {
    for (PendingCommand& command : pending) {
      if (command.state == PendingCommand::State::kWaiting) {
        command.state = PendingCommand::State::kNotRun;
        ++command.attempt;
        command.retry_ms = 0;
        command.unfinished = command.blocked = false;
      }
      pass->push_back(std::move(command));
      if (close_after_command) break;
    }
    pending.clear();
    return;
  }
  // An unauthenticated client's commands are parsed one by one, since AUTH may lift the limits for the following commands.
  const std::size_t count = parser.parse(limits, limits.stranger ? 1 : kCommandsPerRound);
  for (std::size_t i = 0; i < count; ++i) {
    PendingCommand& command = pass->emplace_back();
    command.client = this;
    command.args = parser.command(i);
  }
}

void Connection::take_back(std::span<PendingCommand> part) {
  std::size_t done = 0;
  while (done < part.size() && part[done].state == PendingCommand::State::kDone) ++done;
  rank = 0;
  if (done == part.size()) [[likely]] {
    parser.release();
    return;
  }
  waiting = part[done].state == PendingCommand::State::kWaiting;
  if (!waiting) rank = done == 0 ? 1 : 2;
  if (part[done].unfinished) rank = 2;
  pending.reserve(part.size() - done);
  for (std::size_t i = done; i < part.size(); ++i) pending.push_back(std::move(part[i]));
}

// A thread may use the input after the connection is closed. The connection releases its own charge when it closes, so
// own_input() charges the input for the thread.
std::shared_ptr<const void> Connection::take_input() {
  const std::size_t bytes = parser.input_memory();
  auto input = parser.take_input();
  return memory == nullptr ? input : memory->own_input(std::move(input), bytes);
}

std::size_t Connection::argument_bytes() const {
  std::size_t bytes = parser.big_bytes();
  if (pending.empty()) return bytes;
  for (const Bytes argument : pending.front().args) bytes += argument.size();
  return bytes;
}

void Connection::close_gate(std::uint64_t durable_seq, std::int64_t now_ms) {
  const std::uint64_t end = out.end();
  if (end > gated_until && seen_seq > durable_seq) gates.push_back({std::max(gated_until, out.begin()), seen_seq, now_ms});
  gated_until = end;
}

void Connection::give_up_gated(std::uint64_t durable_seq) {
  open_gates(durable_seq);
  if (gates.empty()) return;
  // Replies before the first gate may leave. Replies after it may show writes that are lost.
  out.drop_from(gates.front().from);
  gates.clear();
  Reply(&out, protocol).error("UNKNOWN the log could not be written: the outcome of the commands is not known");
  gated_until = out.end();
  close_after_reply = true;
}

}  // namespace ebbtide
