// Stopping long work on request (Ctrl-C).
//
// The command line installs the handler; loops that may run for more than a moment poll and return Code::kCancelled, so that
// destructors run and no partial output stays. One flag per process, because a signal has no other address. Thread-safe.
#pragma once
#include "base/result.h"

namespace lathe {

// Makes SIGINT and SIGTERM request a stop. The second signal ends the process at once, as without a handler.
void install_interrupt_handler();

void request_cancel();
// Takes a request back (tests, and servers that go on after one job).
void clear_cancel();
bool cancel_requested();

// While it lives nobody sees a request to stop: what a stopped run goes on from has to be written.
class CancelPause {
 public:
  CancelPause() : requested_(cancel_requested()) { clear_cancel(); }
  ~CancelPause() {
    if (requested_) request_cancel();
  }
  CancelPause(const CancelPause&) = delete;
  CancelPause& operator=(const CancelPause&) = delete;

 private:
  bool requested_;
};

// kCancelled "interrupted" once a stop was requested.
Result<void> check_cancelled();

}  // namespace lathe
