// Reads packed forms that Redis has written, and checks that every change of a length or count is noticed.
#include "store/packed.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;
using namespace std::string_literals;

/// Returns the items as texts, integers with "#" before them; "damaged" if the form is not well-formed.
std::string read(PackedForm form, Bytes bytes) {
  std::string out;
  PackedReader reader(form, bytes);
  for (PackedItem item; reader.next(&item);) {
    if (!out.empty()) out += ' ';
    out += item.number ? "#" + std::to_string(*item.number) : std::string(item.text);
  }
  return reader.is_sound() ? out : "damaged";
}

std::string little(std::uint64_t value, std::size_t bytes) {
  std::string out;
  append_little(&out, value, bytes);
  return out;
}

/// Makes a listpack of entries with their back lengths.
std::string listpack(std::size_t count, const std::string& entries) {
  return little(7 + entries.size(), 4) + little(count, 2) + entries + "\xff";
}

/// Makes a listpack of one string of `length` bytes, with the given head and back length.
std::string listpack_of(const std::string& head, std::size_t length, const std::string& back) {
  return listpack(1, head + std::string(length, 'x') + back);
}

std::string ziplist(std::size_t last, std::size_t count, const std::string& entries) {
  return little(11 + entries.size(), 4) + little(last, 4) + little(count, 2) + entries + "\xff";
}

void check_that_no_part_is_sound(PackedForm form, const std::string& bytes) {
  REQUIRE(read(form, bytes) != "damaged");
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    INFO("the first " << cut << " bytes");
    CHECK(read(form, Bytes(bytes).substr(0, cut)) == "damaged");
  }
  CHECK(read(form, bytes + "\xff") == "damaged");
}

const std::string kListpack = listpack(9,
                                       "\x7f\x01"                                             // 127
                                       "\x82hi\x03"                                           // "hi"
                                       "\xdf\xff\x02"                                         // -1 in 13 bits
                                       "\xd0\x00\x02"                                         // -4096
                                       "\xf1\x00\x80\x03"                                     // -32768
                                       "\xf2\xff\xff\x7f\x04"                                 // 8388607
                                       "\xf3\x00\x00\x00\x80\x05"                             // -2147483648
                                       "\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09\x80\x01"s);  // the largest integer, ""

const std::string kZiplist = ziplist(44, 8,
                                     "\x00\xfd"                                  // 12
                                     "\x02\x02hi"                                // "hi"
                                     "\x04\xfe\x80"                              // -128
                                     "\x03\xc0\x00\x80"                          // -32768
                                     "\x04\xf0\xff\xff\x7f"                      // 8388607
                                     "\x05\xd0\x00\x00\x00\x80"                  // -2147483648
                                     "\x06\xe0\x00\x00\x00\x00\x00\x00\x00\x80"  // the smallest integer
                                     "\xfe\x0a\x00\x00\x00\x00"s);               // "", after a length of five bytes

TEST_CASE("packed: listpack has every kind of entry: all are read") {
  CHECK(read(PackedForm::kListpack, kListpack) == "#127 hi #-1 #-4096 #-32768 #8388607 #-2147483648 #9223372036854775807 ");
  CHECK(read(PackedForm::kListpack, listpack_of("\xbf", 63, "\x40")) == std::string(63, 'x'));
  CHECK(read(PackedForm::kListpack, listpack_of("\xe0\x7d", 125, "\x7f")) == std::string(125, 'x'));
  CHECK(read(PackedForm::kListpack, listpack_of("\xe0\x7e", 126, "\x01\x80")) == std::string(126, 'x'));
  CHECK(read(PackedForm::kListpack, listpack_of("\xf0\x00\x10\x00\x00"s, 4096, "\x20\x85")) == std::string(4096, 'x'));
  CHECK(read(PackedForm::kListpack, listpack_of("\xef\xff", 4095, "\x20\x81")) == std::string(4095, 'x'));
  // Redis gives the lengths 16383, 2097151 and so on a byte more than they need.
  CHECK(read(PackedForm::kListpack, listpack_of("\xf0\xf9\x3f\x00\x00"s, 16377, "\x7f\xfe")) == std::string(16377, 'x'));
  CHECK(read(PackedForm::kListpack, listpack_of("\xf0\xfa\x3f\x00\x00"s, 16378, "\x00\xff\xff"s)) == std::string(16378, 'x'));
  CHECK((read(PackedForm::kListpack, listpack_of("\xf0\xfa\xff\x1f\x00"s, 2097146, "\x00\xff\xff\xff"s)) ==
         std::string(2097146, 'x')));
  CHECK(read(PackedForm::kListpack, listpack(2, "\xc0\x80\x02\xcf\xff\x02")) == "#128 #4095");
  CHECK(read(PackedForm::kListpack, listpack(0, "")).empty());
  CHECK(read(PackedForm::kListpack, listpack(65535, "\x01\x01")) == "#1");
}

TEST_CASE("packed: listpack has a wrong length or count: reading reports damage") {
  check_that_no_part_is_sound(PackedForm::kListpack, kListpack);
  CHECK(read(PackedForm::kListpack, listpack(2, "\x01\x01")) == "damaged");
  CHECK(read(PackedForm::kListpack, listpack(1, "\x01\x02")) == "damaged");  // a wrong back length
  CHECK(read(PackedForm::kListpack, listpack(1, "\x01\x81")) == "damaged");  // a back length that does not end
  CHECK(read(PackedForm::kListpack, listpack_of("\xe0\x7e", 126, "\x81\x80")) == "damaged");
  CHECK(read(PackedForm::kListpack, listpack_of("\xe0\x7e", 126, "\x01\x00"s)) == "damaged");
  CHECK(read(PackedForm::kListpack, listpack(1, "\xf5\x01")) == "damaged");          // an unknown encoding
  CHECK(read(PackedForm::kListpack, listpack(1, "\x01\x01\xff\x01")) == "damaged");  // an end byte before the end
  CHECK(read(PackedForm::kListpack, listpack(1, "\xf0\xff\xff\xff\xffx\x06")) == "damaged");
  std::string other = listpack(1, "\x01\x01");
  other.back() = '\0';
  CHECK(read(PackedForm::kListpack, other) == "damaged");
}

TEST_CASE("packed: ziplist has every kind of entry: all are read") {
  CHECK(read(PackedForm::kZiplist, kZiplist) == "#12 hi #-128 #-32768 #8388607 #-2147483648 #-9223372036854775808 ");
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\xf1"s)) == "#0");
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\x40\x40"s + std::string(64, 'x'))) == std::string(64, 'x'));
  CHECK(read(PackedForm::kZiplist, ziplist(10, 65535, "\x00\x80\x00\x00\x40\x00"s + std::string(16384, 'x'))) ==
        std::string(16384, 'x'));
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\x7f\xff"s + std::string(16383, 'x'))) == std::string(16383, 'x'));
  CHECK(read(PackedForm::kZiplist, ziplist(10, 0, "")).empty());
}

TEST_CASE("packed: ziplist has a wrong length, offset or count: reading reports damage") {
  check_that_no_part_is_sound(PackedForm::kZiplist, kZiplist);
  CHECK(read(PackedForm::kZiplist, ziplist(10, 2, "\x00\xf1"s)) == "damaged");
  CHECK(read(PackedForm::kZiplist, ziplist(11, 1, "\x00\xf1"s)) == "damaged");          // another offset of the last entry
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x01\xf1"s)) == "damaged");          // an entry before the first
  CHECK(read(PackedForm::kZiplist, ziplist(12, 2, "\x00\xf1\x03\xf1"s)) == "damaged");  // another length of the entry before
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\xf5\xff"s)) == "damaged");      // an end byte before the end
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\xc1\x01\x01"s)) == "damaged");  // an unknown encoding
  CHECK(read(PackedForm::kZiplist, ziplist(10, 1, "\x00\x80\xff\xff\xff\xff"s)) == "damaged");
}

TEST_CASE("packed: zipmap has unused bytes: its fields and values are read, and these bytes are skipped") {
  const std::string zipmap =
      "\x02\x03"
      "foo"
      "\x03\x00"
      "bar"
      "\x05"
      "hello"
      "\x05\x02"
      "world"
      "??\xff"s;
  CHECK(read(PackedForm::kZipmap, zipmap) == "foo bar hello world");
  check_that_no_part_is_sound(PackedForm::kZipmap, zipmap);
  const std::string long_field = "\x01\xfe\x00\x01\x00\x00"s + std::string(256, 'x') + "\x00\x00\xff"s;
  CHECK(read(PackedForm::kZipmap, long_field) == std::string(256, 'x') + " ");
  CHECK(read(PackedForm::kZipmap,
             "\xfe\x01"
             "a\x01\x00"
             "b\xff"s) == "a b");  // a count that means "unknown"
  CHECK(read(PackedForm::kZipmap,
             "\x02\x01"
             "a\x01\x00"
             "b\xff"s) == "damaged");  // another count
  CHECK(read(PackedForm::kZipmap,
             "\x01\x01"
             "a\xff"s) == "damaged");  // a field without a value
  CHECK(read(PackedForm::kZipmap,
             "\x01\xff"
             "a\x01\x00"
             "b\xff"s) == "damaged");  // an end byte before the end
}

TEST_CASE("packed: intset has integers of any width: they are read if they are in ascending order") {
  CHECK(read(PackedForm::kIntset, little(2, 4) + little(2, 4) + "\x00\x80\x05\x00"s) == "#-32768 #5");
  CHECK(read(PackedForm::kIntset, little(4, 4) + little(1, 4) + "\x00\x00\x00\x80"s) == "#-2147483648");
  const std::string wide = little(8, 4) + little(2, 4) + little(1, 8) + little(2, 8);
  CHECK(read(PackedForm::kIntset, wide) == "#1 #2");
  check_that_no_part_is_sound(PackedForm::kIntset, wide);
  CHECK(read(PackedForm::kIntset, little(3, 4) + little(1, 4) + "\x01\x00\x00"s) == "damaged");      // an unknown width
  CHECK(read(PackedForm::kIntset, little(2, 4) + little(3, 4) + "\x01\x00\x02\x00"s) == "damaged");  // another count
  CHECK(read(PackedForm::kIntset, little(2, 4) + little(0x80000001, 4) + "\x01\x00"s) == "damaged");
  CHECK(read(PackedForm::kIntset, little(2, 4) + little(2, 4) + "\x05\x00\x05\x00"s) == "damaged");  // twice the same
  CHECK(read(PackedForm::kIntset, little(2, 4) + little(2, 4) + "\x05\x00\x04\x00"s) == "damaged");  // descending
}

}  // namespace TEST_FILE
