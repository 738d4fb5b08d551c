#include "base/quote.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("bytes are printable: quote() copies them, and puts a backslash before quotes and backslashes") {
  CHECK(quote("", "\\x") == R"("")");
  CHECK(quote("user:1 ~", "\\x") == R"("user:1 ~")");
  CHECK(quote(R"(a"b\c)", "\\x") == R"("a\"b\\c")");
}

TEST_CASE("bytes are not printable: each becomes an escape with two hex digits") {
  CHECK(quote(Bytes("\0\x1f\x7f\xff", 4), "\\x") == R"("\x00\x1f\x7f\xff")");
  CHECK(quote("\n\xe9", "\\u00") == R"("\u000a\u00e9")");
}

}  // namespace TEST_FILE
