// Tests of HTTP's basic authentication.
#include "admin/basic_auth.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("basic authentication: user and password are encoded as in RFC 7617") {
  CHECK(basic_credentials("Aladdin", "open sesame") == "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  CHECK(basic_credentials("test", "123\xc2\xa3") == "dGVzdDoxMjPCow==");
  CHECK(basic_credentials("", "") == "Og==");
}

TEST_CASE("basic authentication: header differs: it is refused, unless only the case of the word Basic differs") {
  const std::string right = basic_credentials("ebbtide", "secret");
  CHECK(has_credentials("Basic " + right, right));
  CHECK(has_credentials("bASIC   " + right, right));
  for (const std::string& wrong : {std::string(), std::string("Basic"), std::string("Basic "), right, "Bearer " + right,
                                   "Basic " + right + "=", "Basic " + right.substr(0, right.size() - 1), "Basic " + right + " ",
                                   "Basic " + basic_credentials("ebbtide", "Secret")}) {
    INFO(wrong);
    CHECK_FALSE(has_credentials(wrong, right));
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
