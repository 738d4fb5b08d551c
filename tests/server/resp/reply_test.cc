// Tests of the bytes of every reply in both protocols, and of the output buffer.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "resp/reply.h"

namespace TEST_FILE {

using namespace ebbtide;

template <typename Write>
std::string written(int protocol, Write write) {
  OutputBuffer out;
  Reply reply(&out, protocol);
  write(reply);
  return out.to_string();
}

template <typename Write>
void golden(Write write, const std::string& resp2, const std::string& resp3) {
  CHECK(written(2, write) == resp2);
  CHECK(written(3, write) == resp3);
}

std::string number(double value) {
  char text[40];
  return {text, format_double(value, text)};
}

TEST_CASE("reply of each kind is written: its bytes are those of RESP2 and of RESP3") {
  golden([](Reply& r) { r.simple("PONG"); }, "+PONG\r\n", "+PONG\r\n");
  golden([](Reply& r) { r.ok(); }, "+OK\r\n", "+OK\r\n");
  golden([](Reply& r) { r.error("ERR a\r\nb"); }, "-ERR a  b\r\n", "-ERR a  b\r\n");
  golden(
      [](Reply& r) {
        r.integer(0);
        r.integer(-7);
        r.integer(std::numeric_limits<std::int64_t>::min());
      },
      ":0\r\n:-7\r\n:-9223372036854775808\r\n", ":0\r\n:-7\r\n:-9223372036854775808\r\n");
  golden(
      [](Reply& r) {
        r.bulk("");
        r.bulk("abc");
      },
      "$0\r\n\r\n$3\r\nabc\r\n", "$0\r\n\r\n$3\r\nabc\r\n");
  golden(
      [](Reply& r) {
        r.null();
        r.null_array();
      },
      "$-1\r\n*-1\r\n", "_\r\n_\r\n");
  golden(
      [](Reply& r) {
        r.array(12);
        r.map(2);
        r.set(3);
        r.push(2);
      },
      "*12\r\n*4\r\n*3\r\n*2\r\n", "*12\r\n%2\r\n~3\r\n>2\r\n");
  golden(
      [](Reply& r) {
        r.double_(1.5);
        r.double_(-INFINITY);
      },
      "$3\r\n1.5\r\n$4\r\n-inf\r\n", ",1.5\r\n,-inf\r\n");
  golden(
      [](Reply& r) {
        r.boolean(true);
        r.boolean(false);
      },
      ":1\r\n:0\r\n", "#t\r\n#f\r\n");
  golden([](Reply& r) { r.verbatim("txt", "hello"); }, "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
  golden([](Reply& r) { r.verbatim_in_parts("txt", {"hel", "", "lo"}); }, "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
  golden([](Reply& r) { r.verbatim_in_parts("txt", {}); }, "$0\r\n\r\n", "=4\r\ntxt:\r\n");
  golden([](Reply& r) { r.big_number("123456789012345678901234567890"); }, "$30\r\n123456789012345678901234567890\r\n",
         "(123456789012345678901234567890\r\n");
  CHECK(written(3, [](Reply& r) {
          r.attribute(1);
          r.bulk("a");
          r.bulk("b");
        }) == "|1\r\n$1\r\na\r\n$1\r\nb\r\n");
}

TEST_CASE("double is written: its text is that of Redis 7.2") {
  CHECK(number(0) == "0");
  CHECK(number(-0.0) == "-0");
  CHECK(number(3) == "3");
  CHECK(number(0.1) == "0.1");
  CHECK(number(-1.25) == "-1.25");
  CHECK(number(100000) == "100000");
  CHECK(number(1e8) == "100000000");
  CHECK(number(1.7e12) == "1700000000000");
  CHECK(number(-1e17) == "-100000000000000000");
  CHECK(number(4611686018427387904.0) == "4611686018427387904");
  CHECK(number(4611686018427388928.0) == "4611686018427389000");
  CHECK(number(1e21) == "1e+21");
  CHECK(number(1.5e300) == "1.5e+300");
  CHECK(number(1e-7) == "1e-7");
  CHECK(number(0.0001) == "0.0001");
  CHECK(number(123456.789) == "123456.789");
  CHECK(number(5e-324) == "5e-324");
  CHECK(number(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
  CHECK(number(9007199254740993.0) == "9007199254740992");
  CHECK(number(NAN) == "nan");
}

TEST_CASE("nested arrays get their lengths when they end: the reply has the right lengths") {
  const auto write = [](Reply& r) {
    r.simple("before");
    const auto outer = r.begin_array();
    r.integer(1);
    const auto inner = r.begin_array();
    for (int i = 0; i < 2000; ++i) r.bulk("element");
    r.end_array(inner, 2000);
    const auto empty = r.begin_array();
    r.end_array(empty, 0);
    r.end_array(outer, 3);
    r.simple("after");
  };
  std::string elements;
  for (int i = 0; i < 2000; ++i) elements += "$7\r\nelement\r\n";
  const std::string expected = "+before\r\n*3\r\n:1\r\n*2000\r\n" + elements + "*0\r\n+after\r\n";
  golden(write, expected, expected);
}

TEST_CASE("handler's reply is rolled back: everything that the handler wrote is removed") {
  OutputBuffer out;
  Reply reply(&out);
  reply.bulk("kept");
  const auto mark = reply.mark();
  const auto owner = std::make_shared<const std::string>(100'000, 'x');
  const auto hole = reply.begin_array();
  reply.error("ERR no");
  reply.bulk_shared(owner, *owner);
  for (int i = 0; i < 5000; ++i) reply.bulk("more and more");
  reply.end_array(hole, 5002);
  CHECK(reply.errors() == 1);
  reply.rollback(mark);
  CHECK(reply.errors() == 0);
  CHECK(owner.use_count() == 1);
  CHECK(out.to_string() == "$4\r\nkept\r\n");
  const auto outer = reply.begin_array();
  const auto inside = reply.mark();  // directly after an empty hole
  reply.integer(5);
  reply.rollback(inside);
  reply.integer(6);
  reply.end_array(outer, 1);
  CHECK(out.to_string() == "$4\r\nkept\r\n*1\r\n:6\r\n");
  reply.rollback(mark);
  CHECK(out.to_string() == "$4\r\nkept\r\n");
}

TEST_CASE("reply has a large value: the output buffer refers to the value without a copy until it is sent") {
  OutputBuffer out;
  Reply reply(&out);
  const auto owner = std::make_shared<const std::string>(1 << 20, 'x');
  reply.bulk_shared(owner, *owner);
  CHECK(out.memory() <= 2 * OutputBuffer::kChunkBytes);
  CHECK(owner.use_count() == 2);
  CHECK(out.to_string() == "$1048576\r\n" + *owner + "\r\n");
  out.consume(out.size());
  CHECK(owner.use_count() == 1);
  CHECK(out.memory() == 0);
}

TEST_CASE("reply exceeds the output limit: it is dropped, and writing to the buffer remains safe") {
  OutputBuffer out;
  out.set_limit(100'000);
  Reply reply(&out);
  reply.bulk("before");
  const auto mark = reply.mark();
  const auto hole = reply.begin_array();
  std::size_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    reply.bulk(std::string(200, 'x'));
    most = std::max(most, out.memory());
  }
  CHECK(most <= 100'000);
  CHECK(out.overflown());
  const auto owner = std::make_shared<const std::string>(1 << 20, 'x');
  for (int i = 0; i < 10'000; ++i) reply.bulk_shared(owner, *owner);
  CHECK(owner.use_count() < 3'000);
  reply.bulk(std::string(1'000'000, 'x'));
  reply.end_array(hole, 20'001);
  reply.rollback(mark);
  reply.error("ERR whatever");
  CHECK(out.overflown());
}

TEST_CASE("random writes, sends and rollbacks of replies: the sent bytes are in order") {
  std::mt19937 random(7);
  OutputBuffer out;
  std::string expected, got;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t n = random() % 3 == 0 ? random() % 50'000 : random() % 100;
    std::string data(n, static_cast<char>('a' + i % 26));
    expected += data;
    if (random() % 4 == 0) {
      auto owner = std::make_shared<const std::string>(data);
      out.append_shared(owner, *owner);
    } else {
      out.append(data);
    }
    const std::uint64_t limit = out.begin() + (out.size() == 0 ? 0 : random() % (out.size() + 1));
    iovec pieces[8];
    const int count = out.pieces(pieces, 8, limit);
    std::size_t sum = 0;
    for (int k = 0; k < count; ++k) sum += pieces[k].iov_len;
    REQUIRE(sum <= limit - out.begin());
    std::size_t sent = sum == 0 ? 0 : random() % (sum + 1);
    std::size_t left = sent;
    for (int k = 0; k < count && left > 0; ++k) {
      const std::size_t take = std::min(left, pieces[k].iov_len);
      got.append(static_cast<char*>(pieces[k].iov_base), take);
      left -= take;
    }
    out.consume(sent);
  }
  got += out.to_string();
  CHECK((got == expected));
}

TEST_CASE("output buffer is moved into another: small contents are copied, large and shared ones move") {
  OutputBuffer from, to;
  to.append("before ");
  from.append("little ");
  const auto shared = std::make_shared<const std::string>(100'000, 's');
  from.append_shared(shared, *shared);
  const std::string much(50'000, 'm');
  from.append(much);
  const std::string expected = "before little " + *shared + much;
  to.take(from);
  CHECK(from.empty());
  CHECK(from.memory() == 0);
  CHECK((to.to_string() == expected));
  CHECK(shared.use_count() == 2);
  to.append(" after");
  CHECK((to.to_string() == expected + " after"));
  to.consume(expected.size());
  CHECK(to.to_string() == " after");
  to.consume(6);
  CHECK(to.memory() == 0);
  CHECK(shared.use_count() == 1);
}

TEST_CASE("output is moved to another buffer: the bytes count towards that buffer's limit, and an overflow stays one") {
  OutputBuffer from, to, over;
  to.set_limit(100'000);
  from.append(std::string(200'000, 'x'));
  to.take(from);
  CHECK(to.overflown());
  over.set_limit(10'000);
  over.append(std::string(20'000, 'x'));
  REQUIRE(over.overflown());
  OutputBuffer next;
  next.take(over);
  CHECK(next.overflown());
}

TEST_CASE("several buffers share a message: each counts it as if it were copied") {
  const auto text = std::make_shared<const std::string>(std::string(100'000, 'm') + "\r\n");
  OutputBuffer out, other, limited;
  limited.set_limit(90'000);
  for (OutputBuffer* buffer : {&out, &other, &limited}) Reply(buffer).bulk_message(text, *text);
  CHECK(limited.overflown());
  limited.clear();
  CHECK(text.use_count() == 3);
  CHECK((out.to_string() == "$100000\r\n" + *text));
  CHECK(out.memory() >= 100'000);
  other.take(out);
  CHECK(out.memory() == 0);
  CHECK(other.memory() >= 200'000);
  other.consume(other.size());
  CHECK(other.memory() == 0);
  CHECK(text.use_count() == 1);
}

}  // namespace TEST_FILE
