#include "runtime/host/team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kLeave = 0xffffffffu;

// A thread that waits spins so long, then sleeps. Waking one costs its caller about 5 us, and it comes 50 us later; steps follow
// one another faster than that. It does not offer its CPU between two looks: on a busy machine whoever takes it keeps it for
// milliseconds, while a sleeper that is woken is back at once.
constexpr auto kSpin = std::chrono::microseconds(100);

// Callers inside a Turn. Process-wide because CPUs are.
std::atomic<uint32_t> g_callers{0};

// Waits until done(), which it asks often, or until `give_up` says so, which it asks about every microsecond. Returns done().
template <class Done, class GiveUp> bool spin_until(const Done& done, const GiveUp& give_up) {
  constexpr int kPauses = 32;
  for (int i = 0; i < kPauses; ++i) {
    if (done()) return true;
    spin_pause();
  }
  const auto start = Clock::now();
  while (Clock::now() - start < kSpin && !give_up()) {
    for (int i = 0; i < kPauses; ++i) {
      if (done()) return true;
      spin_pause();
    }
  }
  return done();
}

// Seat `i` of `seats` has tasks [first_task(n, seats, i), first_task(n, seats, i + 1)) of n.
uint32_t first_task(uint32_t n, uint32_t seats, uint32_t i) { return i * (n / seats) + std::min(i, n % seats); }

}  // namespace

Team::Turn::Turn(Team& team) {
  team.turn_cpus_ = team.cpus_ / (g_callers.fetch_add(1, std::memory_order_relaxed) + 1);
  team.make_room();
}
Team::Turn::~Turn() { g_callers.fetch_sub(1, std::memory_order_relaxed); }

Team::Team(uint32_t threads, uint32_t cpus)
    : threads_(std::max(1u, threads)),
      cpus_(std::max(1u, cpus)),
      seats_(std::make_unique<Seat[]>(threads_)),
      turn_cpus_(cpus_),
      allowed_(CpuSet::of_this_thread()) {}

Result<std::unique_ptr<Team>> Team::create(uint32_t threads, uint32_t cpus) {
  std::unique_ptr<Team> team(new Team(threads, cpus));
  try {
    for (uint32_t slot = 1; slot < team->threads_; ++slot) team->helpers_.emplace_back(&Team::help, team.get(), slot);
  } catch (const std::system_error&) {
    return fail(Code::kOutOfMemory, "cannot start thread " + std::to_string(team->helpers_.size() + 2) + " of " +
                                        std::to_string(threads));
  }
  return team;
}

Team::~Team() {
  for (size_t i = 0; i < helpers_.size(); ++i) call(seats_[i + 1], kLeave);
  for (std::thread& t : helpers_) t.join();
}

Parallel Team::parallel() {
  if (threads_ == 1) return {};
  return {&run_tasks, this, threads_};
}

void Team::run_tasks(void* self, uint32_t n, Task fn, void* arg) { static_cast<Team*>(self)->run(n, fn, arg); }

void Team::run(uint32_t n, Task fn, void* arg) {
  const uint32_t callers = std::max(1u, g_callers.load(std::memory_order_relaxed));
  const uint32_t seats = std::min({threads_, n, turn_cpus_, cpus_ / callers});
  if (seats <= 1) {
    for (uint32_t i = 0; i < n; ++i) fn(arg, i, 0);
    return;
  }
  fn_.store(fn, std::memory_order_relaxed);
  arg_.store(arg, std::memory_order_relaxed);
  tasks_.store(n, std::memory_order_relaxed);
  seats_used_.store(seats, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  if (++job_ == kLeave) job_ = 1;
  for (uint32_t i = 0; i < seats; ++i)
    seats_[i].left.store(first_task(n, seats, i + 1) - first_task(n, seats, i), std::memory_order_release);
  for (uint32_t i = 1; i < seats; ++i) call(seats_[i], job_);
  take_all(0);
  wait_for_helpers(n);
}

// Left to itself, the kernel may wake a helper on its waker's CPU and let it wait there while another CPU is idle.
void Team::make_room() {
  if (helpers_.empty()) return;
  const int cpu = current_cpu();
  if (cpu == caller_cpu_) return;
  caller_cpu_ = cpu;
  for (std::thread& t : helpers_) allowed_.keep_off(t, cpu);
}

// Sequentially consistent with help(): either this sees that the helper sleeps, or the helper sees the job before it does.
void Team::call(Seat& seat, uint32_t job) {
  seat.job.store(job, std::memory_order_seq_cst);
  if (seat.asleep.load(std::memory_order_seq_cst) != 0) seat.job.notify_one();
}

void Team::help(uint32_t slot) {
  Seat& seat = seats_[slot];
  for (uint32_t seen = 0;;) {
    const auto called = [&] { return seat.job.load(std::memory_order_acquire) != seen; };
    const auto crowded = [&] { return g_callers.load(std::memory_order_relaxed) >= cpus_; };
    if (!spin_until(called, crowded)) {
      seat.asleep.store(1, std::memory_order_seq_cst);
      seat.job.wait(seen, std::memory_order_seq_cst);
      seat.asleep.store(0, std::memory_order_relaxed);
    }
    seen = seat.job.load(std::memory_order_acquire);
    if (seen == kLeave) return;
    take_all(slot);
  }
}

void Team::take_all(uint32_t slot) {
  const uint32_t seats = seats_used_.load(std::memory_order_relaxed);
  uint32_t taken = take_from(slot, slot);
  for (uint32_t i = 1; i < seats; ++i) taken += take_from((slot + i) % seats, slot);
  if (taken == 0) return;
  done_.fetch_add(taken, std::memory_order_seq_cst);
  if (caller_asleep_.load(std::memory_order_seq_cst) != 0) done_.notify_one();
}

uint32_t Team::take_from(uint32_t index, uint32_t slot) {
  std::atomic<uint32_t>& left = seats_[index].left;
  uint32_t taken = 0;
  for (uint32_t seen = left.load(std::memory_order_acquire); seen != 0;) {
    if (!left.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    const uint32_t seats = seats_used_.load(std::memory_order_relaxed);
    const uint32_t end = first_task(tasks_.load(std::memory_order_relaxed), seats, index + 1);
    fn_.load(std::memory_order_relaxed)(arg_.load(std::memory_order_relaxed), end - seen, slot);
    ++taken;
    seen = left.load(std::memory_order_acquire);
  }
  return taken;
}

void Team::wait_for_helpers(uint32_t n) {
  const auto finished = [&] { return done_.load(std::memory_order_acquire) == n; };
  if (spin_until(finished, [] { return false; })) return;
  caller_asleep_.store(1, std::memory_order_seq_cst);
  for (uint32_t seen = done_.load(std::memory_order_seq_cst); seen != n; seen = done_.load(std::memory_order_seq_cst))
    done_.wait(seen, std::memory_order_seq_cst);
  caller_asleep_.store(0, std::memory_order_relaxed);
}

}  // namespace lathe
