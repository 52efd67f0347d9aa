// Places between two changes on disk, where a test may end the process to see that whatever it finds then is valid.
#pragma once

namespace lathe {

// Called at every such place; null, as it always is outside tests: nothing.
inline void (*crash_hook)() = nullptr;
inline void crash_point() {
  if (crash_hook != nullptr) crash_hook();
}

}  // namespace lathe
