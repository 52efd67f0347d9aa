#include <doctest/doctest.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "runtime/host/cpu.h"
#include "runtime/host/team.h"
#include "tests/temp_folder.h"

using namespace lathe;

namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Team> make(uint32_t threads, uint32_t cpus) {
  auto team = Team::create(threads, cpus);
  REQUIRE_MESSAGE(team.has_value(), team.error().message);
  return std::move(*team);
}

// F is called as fn(task, slot).
template <class F> void run(Team& team, uint32_t n, const F& fn) {
  const Parallel p = team.parallel();
  REQUIRE((p.run != nullptr));
  p.run(p.team, n, [](void* f, uint32_t task, uint32_t slot) { (*static_cast<const F*>(f))(task, slot); },
        const_cast<void*>(static_cast<const void*>(&fn)));
}

// Whether `count` tasks can be under way at the same time: each waits until all have begun.
bool meet(Team& team, uint32_t count) {
  std::atomic<uint32_t> begun{0};
  std::atomic<bool> late{false};
  run(team, count, [&](uint32_t, uint32_t) {
    ++begun;
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (begun < count && !late)
      if (Clock::now() > deadline) late = true;
  });
  return !late;
}

// How many threads of this process wait in the kernel.
int sleeping_threads() {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = stat.rfind(") ");
    n += name_end != std::string::npos && stat[name_end + 2] == 'S' ? 1 : 0;
  }
  return n;
}

bool all_asleep(int threads) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (sleeping_threads() < threads)
    if (Clock::now() > deadline) return false;
  return true;
}

}  // namespace

TEST_CASE("every task of a team runs once, on a slot of the team") {
  for (const uint32_t threads : {2u, 3u, 4u}) {
    const auto team = make(threads, 8);
    for (uint32_t job = 0; job < 4000; ++job) {
      const uint32_t n = job % 11;
      std::atomic<uint32_t> times[11] = {};
      std::atomic<bool> foreign{false};
      run(*team, n, [&](uint32_t task, uint32_t slot) {
        ++times[task];
        if (slot >= threads) foreign = true;
      });
      bool once = !foreign;
      for (uint32_t i = 0; i < 11; ++i) once = once && times[i] == (i < n ? 1u : 0u);
      CHECK_MESSAGE(once, "job ", job, " of ", n, " tasks on ", threads, " threads");
    }
  }
}

TEST_CASE("what tasks write is seen when the job is over") {
  const auto team = make(3, 8);
  uint32_t plain[64] = {};
  for (uint32_t job = 1; job <= 2000; ++job) {
    run(*team, 64, [&](uint32_t task, uint32_t) { plain[task] += task + 1; });
    uint32_t sum = 0;
    for (const uint32_t v : plain) sum += v;
    REQUIRE(sum == job * 64 * 65 / 2);
  }
}

TEST_CASE("helpers take part while they spin and after they slept") {
  const auto team = make(3, 8);
  CHECK(meet(*team, 3));
  CHECK(meet(*team, 2));
  CHECK(all_asleep(2));
  CHECK(meet(*team, 3));
}

TEST_CASE("a caller sleeps while the last task takes long, and wakes when it ends") {
  const auto team = make(2, 8);
  std::atomic<uint32_t> begun{0};
  std::atomic<bool> slept{true};
  run(*team, 2, [&](uint32_t, uint32_t slot) {
    ++begun;
    for (const auto end = Clock::now() + std::chrono::seconds(20); begun < 2 && Clock::now() < end;) spin_pause();
    if (slot == 1) slept = all_asleep(1);
  });
  CHECK(begun == 2);
  CHECK(slept);
}

TEST_CASE("two sessions at work share the CPUs and wake no helper") {
  const auto one = make(2, 2), two = make(2, 2);
  const auto slots_used = [](Team& team) {
    std::atomic<uint32_t> used{0};
    run(team, 64, [&](uint32_t, uint32_t slot) {
      used |= 1u << slot;
      // Long enough for a helper that was woken to come.
      for (const auto end = Clock::now() + std::chrono::microseconds(300); Clock::now() < end;) spin_pause();
    });
    return used.load();
  };
  {
    const Team::Turn first(*one), second(*two);
    CHECK(all_asleep(2));
    CHECK(slots_used(*one) == 1);
    CHECK(slots_used(*two) == 1);
  }
  const Team::Turn alone(*one);
  CHECK(meet(*one, 2));
}

TEST_CASE("a team keeps within the CPUs of the process") {
  const auto team = make(4, 2);
  const Team::Turn turn(*team);
  std::atomic<uint32_t> highest{0};
  for (int job = 0; job < 100; ++job)
    run(*team, 64, [&](uint32_t, uint32_t slot) {
      if (slot > highest) highest = slot;
    });
  CHECK(highest <= 1);
  CHECK(meet(*team, 2));
}

TEST_CASE("a team of one thread starts none") {
  const int before = sleeping_threads();
  CHECK(make(1, 8)->parallel().threads == 1);
  CHECK(make(0, 8)->parallel().threads == 1);
  CHECK(sleeping_threads() == before);
}

TEST_CASE("the quota of a control group and of those above it counts") {
  const test::TempFolder folder;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(path)).parent_path());
    std::ofstream(folder.file(path)) << text;
  };
  const auto cpus = [&](const std::string& groups) {
    std::istringstream in(groups);
    return quota_cpus(in, folder.path());
  };
  put("a/cpu.max", "350000 100000\n");
  put("a/b/cpu.max", "max 100000\n");
  put("a/c/cpu.max", "50000 100000\n");
  put("cpu/old/cpu.cfs_quota_us", "200000\n");
  put("cpu/old/cpu.cfs_period_us", "100000\n");
  put("cpu/free/cpu.cfs_quota_us", "-1\n");
  put("cpu/free/cpu.cfs_period_us", "100000\n");
  CHECK(cpus("0::/a/b\n") == 4);
  CHECK(cpus("0::/a/c\n") == 1);
  CHECK(cpus("0::/\n") == 0);
  CHECK(cpus("3:memory:/a/c\n5:cpu,cpuacct:/old\n") == 2);
  CHECK(cpus("5:cpuset,cpu:/free\n0::/a\n") == 4);
  CHECK(cpus("no group\n") == 0);
  put("cpu.max", "100000 100000\n");
  CHECK(cpus("0::/docker/0123\n") == 1);
}

TEST_CASE("helpers stay off the CPU that their caller is on") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  if (CPU_COUNT(&allowed) < 2) {
    MESSAGE("skipped, this process may use one CPU only");
    return;
  }
  const auto team = make(2, 2);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpu), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    const Team::Turn turn(*team);
    std::atomic<int> begun{0}, wrong{0};
    run(*team, 2, [&](uint32_t, uint32_t slot) {
      if (slot != 0) wrong += CpuSet::of_this_thread().contains(cpu) ? 1 : 0;
      ++begun;
      const auto deadline = Clock::now() + std::chrono::seconds(20);
      while (begun < 2 && Clock::now() < deadline) {
      }
    });
    CHECK(begun == 2);
    CHECK_MESSAGE(wrong == 0, "on CPU ", cpu);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}
