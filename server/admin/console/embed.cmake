# cmake -DSOURCE=<this folder> -DOUTPUT=<file.cc> -P embed.cmake
#
# Puts page.html, style.css and script.js together into one page and writes it, as a string, into a C++ file, with the
# Content-Security-Policy that names style and script by their SHA-256, so that a browser runs nothing else.
cmake_policy(VERSION 3.25)

# sha256_base64(OUT TEXT): the form of a digest that CSP requires. CMake itself gives the digest in hexadecimal only.
function(sha256_base64 out text)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  set(result "")
  # The 32 bytes are ten groups of three bytes, and one group of two.
  foreach(group RANGE 10)
    math(EXPR at "${group} * 6")
    if(group EQUAL 10)
      string(SUBSTRING "${hex}" ${at} 4 part)
      math(EXPR bits "0x${part} << 2")
      set(shifts 12 6 0)
    else()
      string(SUBSTRING "${hex}" ${at} 6 part)
      math(EXPR bits "0x${part}")
      set(shifts 18 12 6 0)
    endif()
    foreach(shift IN LISTS shifts)
      math(EXPR digit "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 character)
      string(APPEND result "${character}")
    endforeach()
  endforeach()
  set(${out} "${result}=" PARENT_SCOPE)
endfunction()

file(READ "${SOURCE}/page.html" page)
file(READ "${SOURCE}/style.css" style)
file(READ "${SOURCE}/script.js" script)
sha256_base64(style_hash "${style}")
sha256_base64(script_hash "${script}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
set(policy "default-src 'none'; style-src 'sha256-${style_hash}'; script-src 'sha256-${script_hash}'; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
# The text is split into string literals short enough for every compiler; adjacent literals are joined.
set(literals "")
string(LENGTH "${page}" length)
set(at 0)
while(at LESS length)
  string(SUBSTRING "${page}" ${at} 8000 part)
  string(APPEND literals "R\"EBBTIDE(${part})EBBTIDE\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE "${OUTPUT}" "// Made by embed.cmake; the page itself is in server/admin/console/.
#include \"admin/console.h\"

namespace ebbtide {

std::string_view console_page() {
  static constexpr std::string_view kPage = ${literals};
  return kPage;
}

std::string_view console_policy() { return \"${policy}\"; }

}  // namespace ebbtide
")
