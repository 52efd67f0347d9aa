#include "base/cancel.h"

#include <atomic>
#include <csignal>

namespace lathe {
namespace {

std::atomic<bool> g_cancelled{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void on_interrupt(int signal_number) {
  g_cancelled.store(true, std::memory_order_relaxed);
  std::signal(signal_number, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

void request_cancel() { g_cancelled.store(true, std::memory_order_relaxed); }
void clear_cancel() { g_cancelled.store(false, std::memory_order_relaxed); }
bool cancel_requested() { return g_cancelled.load(std::memory_order_relaxed); }

Result<void> check_cancelled() {
  if (cancel_requested()) return fail(Code::kCancelled, "interrupted");
  return {};
}

}  // namespace lathe
