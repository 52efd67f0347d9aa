// The registry of versions: what is shared, found, promoted, collected, and what a killed process leaves.
#include "base/store/registry.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "base/store/crash_point.h"
#include "base/store/lineage.h"
#include "temp_folder.h"

namespace lathe {
namespace {

using test::TempFolder;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

Registry opened(const std::string& folder) {
  auto r = Registry::open(folder, true);
  REQUIRE_MESSAGE(r, r.error().message);
  return std::move(*r);
}

Version added(Registry& r, const std::string& name, const std::string& parent, const std::string& text,
              const std::vector<uint64_t>& cuts = {}, const std::string& tag = "") {
  Version v;
  v.name = name;
  v.parent = parent;
  v.created = "2026-01-01T00:00:0" + std::to_string(text.size() % 10) + "Z";
  const auto done = r.add(v, bytes_of(text), cuts, tag);
  REQUIRE_MESSAGE(done, done.error().message);
  return *done;
}

size_t object_count(const std::string& folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/objects")) n += entry.is_regular_file();
  return n;
}

template <class T> std::string error_of(const Result<T>& r) { return r ? "" : r.error().message; }
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// original <- fp16 <- int8, and an experiment that nobody needs.
void fill(Registry& r) {
  added(r, "original", "", "aaaabbbb", {4}, "original");
  added(r, "fp16", "original", "aaaacccc", {4});
  added(r, "int8", "fp16", "dddd", {}, "int8-mixed");
  added(r, "trial", "fp16", "eeeeaaaa", {4});
}

TEST_CASE("equal pieces are kept once, and a version's file comes back whole") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  const Version a = added(r, "a", "", "headSAMEtail", {4, 8}), b = added(r, "b", "a", "otherSAMEend", {5, 9, 99});
  CHECK(a.chunks.size() == 3);
  CHECK(a.chunks[1] == b.chunks[1]);
  CHECK(object_count(folder.file("r")) == 5);
  REQUIRE(r.get(b, folder.file("out")));
  CHECK(*read_text_file(folder.file("out")) == "otherSAMEend");
  CHECK(b.file == hash128(bytes_of("otherSAMEend")));
}

TEST_CASE("versions are found by name, tag, current and hash") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  fill(r);
  CHECK(r.find("fp16")->parent == "original");
  CHECK(r.find("int8-mixed")->name == "int8");
  CHECK(r.find(to_hex(r.find("int8")->file).substr(0, 8))->name == "int8");
  CHECK(contains(error_of(r.find("current")), "no version or tag 'current'"));
  CHECK(contains(error_of(r.find("nothing")), "no version or tag 'nothing'"));
  Version bad;
  for (const char* name : {"", "../x", ".hidden", "a b", "-f", "current"}) {
    bad.name = name;
    CHECK_MESSAGE(contains(error_of(r.add(bad, bytes_of("x"), {}, "")), "cannot be the name"), name);
  }
  bad.name = "int8";
  CHECK(contains(error_of(r.add(bad, bytes_of("x"), {}, "")), "is there with other bytes"));
  bad.name = "orphan", bad.parent = "nobody";
  CHECK(contains(error_of(r.add(bad, bytes_of("x"), {}, "")), "no version or tag 'nobody'"));
}

TEST_CASE("what is known of a version survives its file") {
  const TempFolder folder;
  {
    Registry r = opened(folder.file("r"));
    Version v;
    v.name = "v1", v.created = "2026-01-01T00:00:00Z", v.tool = "lathe 1", v.command = "lathe quantize \"a\\b\" -o x";
    v.facts["keep_hash"] = "00ff";
    v.metrics[""]["accuracy"] = 0.1 + 0.2;
    v.metrics["device=old phone"]["accuracy"] = 1;
    v.latency_us["server"] = 48.4;
    REQUIRE(r.add(v, bytes_of("x"), {}, ""));
    Version more;
    more.name = "v1", more.latency_us["phone"] = 9000;
    REQUIRE(r.update(more));
  }
  const auto v = opened(folder.file("r")).find("v1");
  REQUIRE_MESSAGE(v, v.error().message);
  CHECK(v->command == "lathe quantize \"a\\b\" -o x");
  CHECK(v->metrics.at("").at("accuracy") == 0.1 + 0.2);
  CHECK(v->metrics.at("device=old phone").at("accuracy") == 1);
  CHECK(v->latency_us.at("server") == 48.4);
  CHECK(v->latency_us.at("phone") == 9000);
  CHECK(v->facts.at("keep_hash") == "00ff");
}

TEST_CASE("promotion and the way back") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  fill(r);
  CHECK(contains(error_of(r.rollback({})), "no version was current before"));
  CHECK(contains(error_of(r.promote("int8", "phone")), "'int8' has no latency measured on device 'phone'"));
  CHECK(r.state().current.empty());
  REQUIRE(r.promote("fp16", {}));
  REQUIRE(r.promote("int8-mixed", {}));
  REQUIRE(r.promote("int8", {}));
  CHECK(r.find("current")->name == "int8");
  CHECK(r.rollback({})->name == "fp16");
  CHECK(r.rollback("original")->name == "original");
  CHECK(r.rollback({})->name == "fp16");
  CHECK(contains(error_of(r.rollback({})), "no version was current before"));
}

TEST_CASE("gc keeps what is tagged, current, in the history, new, or an ancestor of these") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  fill(r);
  const auto first = r.gc(0);
  REQUIRE(first);
  CHECK(first->versions == std::vector<std::string>{"trial"});
  CHECK(first->swept.objects == 1);  // "aaaa" is the original's, too
  CHECK(r.find("fp16"));
  CHECK(r.rollback("original")->name == "original");
  CHECK(r.gc(0)->versions.empty());
  CHECK(r.verify()->empty());
  added(r, "late", "", "fffffffff", {});
  CHECK(r.gc(1)->versions.empty());
  CHECK(r.gc(0)->versions == std::vector<std::string>{"late"});
}

TEST_CASE("an original, and a family's newest fp16 and int8-mixed, have standing tags") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  const auto with = [&](const std::string& name, const std::string& parent, const char* precision, int second, const char* stage = nullptr) {
    Version v;
    if (stage != nullptr) v.facts[kStageFact] = stage;
    v.name = name;
    v.parent = parent;
    v.created = "2026-01-01T00:00:0" + std::to_string(second) + "Z";
    v.facts[kPrecisionFact] = precision;
    REQUIRE(r.add(v, bytes_of(name), {}, ""));
  };
  with("a", "", "float", 0);
  with("a-half", "a", "fp16", 1);
  with("a-int8", "a-half", "int8-mixed", 2);
  with("a-int8-2", "a-half", "int8-mixed", 3);
  with("b", "", "float", 4);
  with("b-int8", "b", "int8-mixed", 5);
  CHECK(r.find("original")->name == "b");  // the newest family while none is current
  REQUIRE(r.promote("a-int8", {}));
  CHECK(r.find("original")->name == "a");
  CHECK(r.find("fp16")->name == "a-half");
  CHECK(r.find("int8-mixed")->name == "a-int8-2");
  CHECK(r.tags()->size() == 3);
  CHECK(r.gc(0)->versions.empty());  // those of b stand for b, and keep b
  CHECK(r.rollback("original")->name == "a");
  REQUIRE(r.tag("int8-mixed", "a-int8"));  // what is set wins
  CHECK(r.find("int8-mixed")->name == "a-int8");
  with("a-int8-3", "a", "int8-mixed", 6);
  CHECK(r.gc(0)->versions == std::vector<std::string>{"a-int8-2"});
  CHECK(r.verify()->empty());
  with("a-cut", "a", "float", 7, "pruned");
  CHECK(r.find("pruned")->name == "a-cut");
}

TEST_CASE("damage is found and does not get promoted") {
  const TempFolder folder;
  Registry r = opened(folder.file("r"));
  fill(r);
  const std::string hex = to_hex(r.find("int8")->chunks[0].hash);
  std::ofstream(folder.file("r") + "/objects/" + hex.substr(0, 2) + "/" + hex.substr(2)) << "dddx";
  const auto problems = r.verify();
  REQUIRE(problems);
  REQUIRE(problems->size() == 1);
  CHECK(contains((*problems)[0], "version 'int8': object "));
  CHECK(contains(error_of(r.promote("int8", {})), "is damaged"));
  CHECK(contains(error_of(r.get(*r.find("int8"), folder.file("out"))), "is damaged"));
  CHECK(!std::filesystem::exists(folder.file("out")));
  CHECK(contains(error_of(Registry::open(folder.file("none"), false)), "is no registry"));
}

int steps_left = 0;
void end_at_step() {
  if (steps_left-- == 0) ::_exit(9);
}

// The exit status of a child that does it and ends at crash point `step`.
int run_until(const std::string& folder, int step, void (*work)(Registry&)) {
  const pid_t child = ::fork();
  if (child == 0) {
    steps_left = step;
    crash_hook = end_at_step;
    auto r = Registry::open(folder, true);
    if (r) work(*r);
    ::_exit(r ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

void check_valid(const std::string& folder, const std::vector<std::string>& may_be_current) {
  const Registry r = opened(folder);
  const auto problems = r.verify();
  REQUIRE_MESSAGE(problems, problems.error().message);
  CHECK_MESSAGE(problems->empty(), (problems->empty() ? "" : (*problems)[0]));
  CHECK(std::find(may_be_current.begin(), may_be_current.end(), r.state().current) != may_be_current.end());
  CHECK(r.find("original"));
}

TEST_CASE("a process that ends between any two changes leaves a valid registry") {
  struct Work {
    const char* name;
    void (*run)(Registry&);
  };
  const Work works[] = {{"promote", [](Registry& r) { (void)r.promote("int8", {}); }},
                        {"rollback", [](Registry& r) { (void)r.rollback({}); }},
                        {"gc", [](Registry& r) { (void)r.gc(0); }},
                        {"add", [](Registry& r) { Version v; v.name = "more"; (void)r.add(v, bytes_of("aaaagggg"), {4}, "fp16"); }}};
  for (const Work& work : works) {
    CAPTURE(std::string(work.name));
    int ended = 9;
    for (int step = 0; ended == 9; ++step) {
      CAPTURE(step);
      const TempFolder folder;
      {
        Registry r = opened(folder.file("r"));
        fill(r);
        REQUIRE(r.promote("original", {}));
        REQUIRE(r.promote("fp16", {}));
      }
      ended = run_until(folder.file("r"), step, work.run);
      check_valid(folder.file("r"), {"original", "fp16", "int8"});
      if (ended == 9) CHECK(run_until(folder.file("r"), 1000, work.run) == 0);
      check_valid(folder.file("r"), {"original", "fp16", "int8"});
      REQUIRE(step < 50);
    }
    CHECK(ended == 0);
  }
}

TEST_CASE("a process that is killed at any instant leaves a valid registry") {
  const TempFolder folder;
  {
    Registry r = opened(folder.file("r"));
    fill(r);
    REQUIRE(r.promote("fp16", {}));
    REQUIRE(r.promote("original", {}));
  }
  std::mt19937 rng(5);
  for (int i = 0; i < 200; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto r = Registry::open(folder.file("r"), false);
      for (int k = 0; r && k < 50; ++k) {
        (void)r->promote(k % 2 == 0 ? "int8" : "original", {});
        (void)r->rollback({});
        Version v;
        v.name = "junk" + std::to_string(k);
        (void)r->add(v, bytes_of("junk" + std::to_string(i * 100 + k)), {4}, "");
        (void)r->gc(0);
      }
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(rng() % 4000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (i % 10 == 0) check_valid(folder.file("r"), {"original", "fp16", "int8"});
  }
  check_valid(folder.file("r"), {"original", "fp16", "int8"});
}

}  // namespace
}  // namespace lathe
