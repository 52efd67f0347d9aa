#include "tools/cost_table.h"

#include <doctest/doctest.h>

#include "base/atomic_file.h"
#include "temp_folder.h"
#include "tools/scatter_chart.h"

using namespace lathe;
using namespace lathe::tools;
using lathe::test::TempFolder;

TEST_CASE("a table of costs keeps what it knows of other devices") {
  const TempFolder folder;
  const std::string path = folder.file("costs.json");
  for (const auto& [device, us] : {std::pair{"one", 1.25}, std::pair{"two", 3.5}}) {
    auto table = CostTable::open(path, device);
    REQUIRE(table);
    CHECK(!table->find("Add 4 4 > 4 INT8 t1"));
    table->set("Add 4 4 > 4 INT8 t1", us);
    REQUIRE(table->save());
  }
  const auto one = CostTable::open(path, "one"), two = CostTable::open(path, "two");
  REQUIRE((one && two));
  CHECK(one->find("Add 4 4 > 4 INT8 t1") == 1.25);
  CHECK(two->find("Add 4 4 > 4 INT8 t1") == 3.5);
  for (const char* bad : {"[]", "{}", "{\"devices\": {\"one\": 1}}", "{\"devices\": {\"one\": {\"k\": -1}}}", "{"}) {
    REQUIRE(write_file_atomic(path, std::string_view(bad)));
    CHECK(!CostTable::open(path, "one"));
  }
}

TEST_CASE("a device's name is that of its CPU and of the instruction set in use") {
  SessionOptions scalar;
  scalar.isa = kernels::kIsaScalar;
  const std::string name = device_name(scalar);
  CHECK(name.size() > 7);
  CHECK(name.substr(name.size() - 7) == " scalar");
  CHECK(name == device_name(scalar));
}

TEST_CASE("a scatter chart puts larger values further right and further up, and negative ones below zero") {
  const std::string svg = scatter_chart({"T & t", "x", "y", {{"a", 10, -1, false}, {"b", 20, 3, true}}, {}, 2.0, {}});
  double ax = 0, ay = 0, bx = 0, by = 0;
  REQUIRE(std::sscanf(svg.c_str() + svg.find("class=\"b\" cx"), "class=\"b\" cx=\"%lf\" cy=\"%lf\"", &ax, &ay) == 2);
  REQUIRE(std::sscanf(svg.c_str() + svg.find("class=\"m\" cx"), "class=\"m\" cx=\"%lf\" cy=\"%lf\"", &bx, &by) == 2);
  CHECK(bx > ax);
  CHECK(by < ay);
  CHECK(svg.find("class=\"l\"") != std::string::npos);
  CHECK(svg.find("T &amp; t") != std::string::npos);
}
