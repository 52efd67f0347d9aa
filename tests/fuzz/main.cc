// fuzz_lathe TARGET [--runs N] [--seed S] [--only K] [--write-seeds DIR] [FILE...]
//
// Runs a target on its seeds, then on N mutations of them (default 1000) that follow from S (default 1). A run that ends badly
// prints its number K; --only K repeats that one, and --save PATH writes its bytes first. FILES: runs those instead.
// --write-seeds: writes the seeds as files and ends; libFuzzer starts from them.
#define DOCTEST_CONFIG_IMPLEMENT  // helpers of the tests are used here
#include <doctest/doctest.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"
#include "tests/test_data.h"

// No input of these sizes may make the process large; one block of more than a gigabyte is refused, as on a machine without it.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=1024:allocator_may_return_null=1:hard_rss_limit_mb=2048"; }
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:abort_on_error=1:print_stacktrace=1"; }
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace lathe::fuzz {
namespace {

constexpr time_t kSecondsPerRun = 30;
constexpr uintmax_t kMostSeedBytes = 100000;

struct Options {
  const Target* target = nullptr;
  uint64_t runs = 1000, seed = 1, only = 0;
  std::string write_seeds, save;
  std::vector<std::string> files;
};

// What is running, for the report of a crash.
char g_running[256];

void say_running() {
  const ssize_t ignored = write(2, g_running, strlen(g_running));
  (void)ignored;
}
void on_signal(int signal) {
  say_running();
  if (signal == SIGPROF) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string file_text(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream text;
  text << f.rdbuf();
  return text.str();
}

std::vector<std::string> all_seeds(const Target& target) {
  std::vector<std::string> out = target.seeds();
  const std::string models = target.extension == nullptr ? "" : test::data_path("models");
  std::vector<std::string> paths;
  if (!models.empty())
    for (const auto& entry : std::filesystem::recursive_directory_iterator(models))
      if (entry.is_regular_file() && entry.path().extension() == target.extension && entry.file_size() <= kMostSeedBytes)
        paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) out.push_back(file_text(path));
  return out;
}

// Ends the program after so many seconds of its own work, however busy the machine is; 0: never.
void limit_work(time_t seconds) {
  const itimerval limit{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void run_one(const Target& target, const std::string& bytes) {
  limit_work(kSecondsPerRun);
  target.run(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
  limit_work(0);
}

const Target* find_target(const std::string& name) {
  for (const Target* t = kTargets; t->name != nullptr; ++t)
    if (name == t->name) return t;
  return nullptr;
}

bool parse(int argc, char** argv, Options* o) {
  if (argc < 2 || (o->target = find_target(argv[1])) == nullptr) return false;
  for (int i = 2; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.rfind("--", 0) != 0) {
      o->files.push_back(a);
      continue;
    }
    if (++i == argc) return false;
    if (a == "--runs") o->runs = std::strtoull(argv[i], nullptr, 10);
    else if (a == "--seed") o->seed = std::strtoull(argv[i], nullptr, 10);
    else if (a == "--only") o->only = std::strtoull(argv[i], nullptr, 10);
    else if (a == "--write-seeds") o->write_seeds = argv[i];
    else if (a == "--save") o->save = argv[i];
    else return false;
  }
  return true;
}

void fuzz(const Options& o, const std::vector<std::string>& seeds) {
  Mutator mutator(seeds, o.seed);
  for (uint64_t k = 1; k <= std::max(o.runs, o.only); ++k) {
    const std::string bytes = mutator.next();
    if (o.only != 0 && k != o.only) continue;
    std::snprintf(g_running, sizeof g_running, "fuzz_lathe: target %s, --seed %llu --only %llu\n", o.target->name,
                  static_cast<unsigned long long>(o.seed), static_cast<unsigned long long>(k));
    if (!o.save.empty()) std::ofstream(o.save, std::ios::binary) << bytes;
    run_one(*o.target, bytes);
    if (k == o.only) break;
  }
}

int run(const Options& o) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}) std::signal(signal, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_running);
  for (const std::string& path : o.files) {
    std::snprintf(g_running, sizeof g_running, "fuzz_lathe: target %s, file %s\n", o.target->name, path.c_str());
    run_one(*o.target, file_text(path));
  }
  if (!o.files.empty()) return 0;
  const std::vector<std::string> seeds = all_seeds(*o.target);
  if (!o.write_seeds.empty()) {
    std::filesystem::create_directories(o.write_seeds);
    for (size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(o.write_seeds + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
    return 0;
  }
  std::snprintf(g_running, sizeof g_running, "fuzz_lathe: target %s, a seed\n", o.target->name);
  if (o.only == 0)
    for (const std::string& seed : seeds) run_one(*o.target, seed);
  const auto start = std::chrono::steady_clock::now();
  fuzz(o, seeds);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %zu seeds, %llu mutations, %.0f per second\n", o.target->name, seeds.size(),
              static_cast<unsigned long long>(o.only != 0 ? 1 : o.runs), static_cast<double>(o.runs) / seconds);
  return 0;
}

}  // namespace
}  // namespace lathe::fuzz

int main(int argc, char** argv) {
  lathe::fuzz::Options options;
  if (!lathe::fuzz::parse(argc, argv, &options)) {
    std::cerr << "fuzz_lathe TARGET [--runs N] [--seed S] [--only K] [--save PATH] [--write-seeds DIR] [FILE...]\ntargets:";
    for (const lathe::fuzz::Target* t = lathe::fuzz::kTargets; t->name != nullptr; ++t) std::cerr << " " << t->name;
    std::cerr << "\n";
    return 2;
  }
  return lathe::fuzz::run(options);
}
