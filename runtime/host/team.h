// A team of threads for kernels: one per session, made with it and gone with it. docs/threads.md has the reasons and figures.
//
// The caller of run() takes part; helpers wait for work. They spin for a bounded time, so that the steps of a run, which follow
// one another within microseconds, find them awake, and then sleep, so that an idle session costs nothing. Nobody ever waits
// for a helper that has not begun: tasks that a sleeping or preempted one leaves are done by the others. Helpers stay off the
// caller's CPU, where they could only wait. All sessions of a process share its CPUs: with several callers at work, each gets
// its part and no more helpers than fit.
//
// Thread-safety: one caller at a time. Results do not depend on the team's size, nor on who does which task.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/bound.h"
#include "runtime/host/cpu.h"

namespace lathe {

class Team {
 public:
  // `threads` counts the caller; 0 counts as 1, and a team of 1 starts nothing. `cpus`: how many the process may use
  // (usable_cpus()). Error: the system has no more threads.
  static Result<std::unique_ptr<Team>> create(uint32_t threads, uint32_t cpus);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // For the executor; valid while the team lives.
  Parallel parallel();

  // Held while a session runs, whatever its size: tells the teams of the process how many callers want CPUs. What the team may
  // have of them at most is settled here, once per run, so that another caller's pause between two runs wakes nobody; and
  // helpers leave the CPU that the caller is on.
  class Turn {
   public:
    explicit Turn(Team& team);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
  };

 private:
  using Task = void (*)(void* arg, uint32_t task, uint32_t slot);

  // One thread's part of a job, and where its helper waits.
  struct alignas(64) Seat {
    std::atomic<uint32_t> left{0};    // tasks that nobody took yet
    std::atomic<uint32_t> job{0};     // number of the last job that wants this helper; kLeave ends it
    std::atomic<uint32_t> asleep{0};  // 1: waits in the kernel for `job` to change
  };

  Team(uint32_t threads, uint32_t cpus);
  static void run_tasks(void* self, uint32_t n, Task fn, void* arg);
  void run(uint32_t n, Task fn, void* arg);
  void help(uint32_t slot);
  void make_room();
  void call(Seat& seat, uint32_t job);
  void take_all(uint32_t slot);
  uint32_t take_from(uint32_t seat, uint32_t slot);
  void wait_for_helpers(uint32_t n);

  const uint32_t threads_, cpus_;
  std::unique_ptr<Seat[]> seats_;  // [0]: the caller's
  uint32_t job_ = 0;               // the caller's count
  uint32_t turn_cpus_;             // for this run
  // The job. Written while no task is left, so whoever took a task reads what belongs to it, even if it was away for a while.
  std::atomic<Task> fn_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<uint32_t> tasks_{0}, seats_used_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // tasks that are finished
  std::atomic<uint32_t> caller_asleep_{0};
  std::vector<std::thread> helpers_;
  const CpuSet allowed_;  // of the thread that made the team
  int caller_cpu_ = -1;   // helpers are kept off it
};

}  // namespace lathe
