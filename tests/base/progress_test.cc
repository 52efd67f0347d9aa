#include "base/progress.h"

#include <doctest/doctest.h>

#include <vector>

namespace lathe {
namespace {

struct Fake {
  double now = 100;
  std::vector<std::string> printed;
  ProgressSink sink(bool enabled = true) {
    return {enabled, [this] { return now; }, [this](std::string_view text) { printed.emplace_back(text); }};
  }
};

TEST_CASE("progress is silent for two seconds and where there is no terminal") {
  Fake fake, piped;
  {
    Progress quick("reading", 10, fake.sink());
    fake.now += 1.9;
    quick.update(5);
    Progress nowhere("reading", 10, piped.sink(false));
    piped.now += 60;
    nowhere.update(5);
  }
  CHECK(fake.printed.empty());
  CHECK(piped.printed.empty());
}

TEST_CASE("progress prints at most five times a second and erases its line at the end") {
  Fake fake;
  {
    Progress progress("reading", 1000, fake.sink());
    fake.now += 2;
    for (uint64_t i = 1; i <= 1000; ++i) {
      fake.now += 0.001;
      progress.update(i);
    }
  }
  CHECK(fake.printed.size() >= 5);
  CHECK(fake.printed.size() <= 7);
  CHECK(fake.printed.back() == "\r\x1b[K");
}

TEST_CASE("a progress line tells count, share and time left") {
  CHECK(progress_line("calibrating", 300, 1200, 2.0) == "calibrating: 300 of 1200 (25 %), 6 s left");
  CHECK(progress_line("calibrating", 1, 1206, 0.1) == "calibrating: 1 of 1206 (0 %), 2 min 1 s left");
  CHECK(progress_line("reading", 1, 10000, 2) == "reading: 1 of 10000 (0 %), 5 h 33 min left");
  CHECK(progress_line("reading", 10, 10, 2) == "reading: 10 of 10 (100 %)");
  CHECK(progress_line("reading", 7, 0, 2) == "reading: 7");
}

}  // namespace
}  // namespace lathe
