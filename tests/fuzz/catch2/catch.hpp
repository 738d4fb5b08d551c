// Catch's macros where no test runs: a fuzz program may be made of what the unit tests are made of (the harness of a database, the
// model beside it), and what these demand ends it.
#pragma once

#include "fuzz.h"

#define REQUIRE(condition) FUZZ_CHECK(condition)
#define CHECK(condition) FUZZ_CHECK(condition)
#define INFO(text) static_cast<void>(0)
#define FAIL(text) FUZZ_CHECK(false)
