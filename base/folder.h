// Folders whose files one process at a time changes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace lathe {

enum class WhenLocked : uint8_t { kWait, kFail };

// An exclusive lock on a file, which is made if it is not there; held until the last owner of the result lets go, and never longer than
// the process lives. Error: somebody else holds it (kFail); the operating system's.
Result<std::shared_ptr<void>> lock_file(const std::string& path, WhenLocked when_locked);

// Removes what killed processes left behind: files whose names begin with a dot, as those of AtomicFile do until they are renamed.
// Requires: nobody else writes there.
Result<void> remove_leftovers(const std::string& folder);

}  // namespace lathe
