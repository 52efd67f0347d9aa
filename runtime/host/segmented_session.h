// Sessions of programs of several segments: a step whose result becomes dims (op Extents) ends one, and the next is bound when it
// has run. Inputs, outputs and everything that lives across segments has memory of its own, which the session keeps.
#pragma once
#include "runtime/host/session.h"

namespace lathe {

class Team;

Result<std::unique_ptr<HostSession>> make_segmented_session(std::shared_ptr<const LoadedProgram> program,
                                                            const SessionOptions& options, std::unique_ptr<Team> team);

}  // namespace lathe
