#include <doctest/doctest.h>

#include <random>

#include "graph/dim.h"

namespace lathe {
namespace {

TEST_CASE("dimension text is canonical and parses back") {
  DimTable t;
  const auto text = [&](const char* s) {
    const auto d = t.parse(s);
    return d ? t.text(*d) : "error: " + d.error().message;
  };
  CHECK(text("N*4+1") == "N*4+1");
  CHECK(text("floordiv(N*1024+5, 1024)") == "N");
  CHECK(text("floordiv(floordiv(H-1,2)+1-1, 2) + 1") == "floordiv(H+3,4)");
  CHECK(text("ceildiv(N, 4)") == "floordiv(N+3,4)");
  CHECK(text("floordiv((N+1)*784, N+1)") == "784");
  CHECK(text("max(0, min(N, N+3))") == "N");
  CHECK(text("N - M*3") == "-M*3+N");
  CHECK(text("-9223372036854775808") == "-9223372036854775808");
  CHECK(text("N*-9223372036854775808 - 4") == "N*-9223372036854775808-4");
  CHECK(text("\"batch size\" + 0") == "\"batch size\"");
  CHECK(text("floordiv(N, 0)") == "error: line 1: dimension overflows or is too large an expression");
  CHECK(text("9223372036854775807 + 1") == "error: line 1: dimension overflows or is too large an expression");
}

}  // namespace
}  // namespace lathe
