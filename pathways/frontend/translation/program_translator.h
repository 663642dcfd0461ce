// ProgramTranslator: writes a program for an older version of StableHLO than its own.
//
// There are two: the client's own process (client_translator.h), whose jaxlib is never older than what it sent, and a process beside the
// controller (helper_translator.h) for clients that have none of our package.
#pragma once

#include <cstddef>
#include <string>

#include "pathways/base/bytes.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

// A translation is about as large as its program.
inline constexpr size_t kMaxTranslatable = size_t{128} << 20;

class ProgramTranslator {
 public:
  virtual ~ProgramTranslator() = default;
  // A program may come soon: what takes long to start is started. On the strand.
  virtual void Prepare() {}
  // Writes a StableHLO portable artifact for readers of `version` ("1.13.0"). On the strand; `done` runs once, on the strand, perhaps inside the
  // call. An error says who could not translate it, and why. INVALID_ARGUMENT and FAILED_PRECONDITION: another jaxlib could.
  virtual void Translate(Bytes program, std::string version, controller::ResultCallback<Bytes> done) = 0;
};

}  // namespace pw::frontend
