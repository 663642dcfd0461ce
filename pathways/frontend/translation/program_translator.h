// ProgramTranslator: rewrites a program for an older version of StableHLO than its own.
//
// One translator uses the client's own process, whose jaxlib is never older than the program (client_translator.h). Another uses
// a process beside the front end, for clients without our package (helper_translator.h).
#pragma once

#include <cstddef>
#include <string>

#include "pathways/base/memory/bytes.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

// A translation is about as large as its program.
inline constexpr size_t kMaxTranslatable = size_t{128} << 20;

class ProgramTranslator {
 public:
  virtual ~ProgramTranslator() = default;
  // Starts slow processes in advance, because a program may come soon. On the strand.
  virtual void Prepare() {}
  // Translates a StableHLO portable artifact for readers of `version` ("1.13.0"). On the strand; `done` runs once, on the strand, maybe
  // inside the call. An error says which translator failed, and why. INVALID_ARGUMENT and FAILED_PRECONDITION: another jaxlib could
  // translate the program.
  virtual void Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) = 0;
};

}  // namespace pw::frontend
