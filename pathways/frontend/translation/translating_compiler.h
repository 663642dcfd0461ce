// TranslatingCompiler: compiles clients' programs, those that are newer than the devices' runtime too.
//
// A program goes to the hosts as it is. If they did not read it because it is of a newer StableHLO (controller::kNewerThanRuntime), it is
// translated to the version that all of them read, by the client's own process if that has our package, else by a helper beside
// the controller, and what comes out is compiled.
//
// Invariants:
//   TC-1  a program that the hosts read is not translated, and none is hashed before the first translation
//   TC-2  a program is translated at most once for a compilation, and, while its translation is kept, once for all of them
//   TC-3  what a client's process answers reaches no other client
// Strand-confined; `done` runs as Session::Compile says.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/base/timer_queue.h"
#include "pathways/controller/session.h"
#include "pathways/frontend/translation/program_translator.h"
#include "pathways/frontend/translation/translations.h"

namespace pw::frontend {

class ClientSession;

class TranslatingCompiler : public std::enable_shared_from_this<TranslatingCompiler> {
 public:
  using Done = controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>>;
  struct Options {
    absl::Duration client_limit = absl::Seconds(60);  // for a client's process to translate a program
    size_t max_program_bytes = kMaxTranslatable;
    Translations::Limits kept = {};
  };

  // `helper` may be null: then programs of clients without our package are not translated. All outlive the last session.
  TranslatingCompiler(const Options& options, ProgramTranslator* helper, Timers* timers, Executor* strand)
      : options_(options), helper_(helper), timers_(timers), strand_(strand), translations_(options.kept) {}

  void Compile(ClientSession& session, controller::CompileRequest request, Done done);
  void Forget(const ClientSession& session);

  const Translations& translations() const { return translations_; }

 private:
  // A compilation that the hosts have refused.
  struct Refused;

  void Translate(ClientSession& session, Refused refused);
  void TranslateByHelper(Refused refused);
  void OnTranslated(Refused refused, uint64_t owner, absl::StatusOr<Bytes> translation);

  const Options options_;
  ProgramTranslator* const helper_;
  Timers* const timers_;
  Executor* const strand_;
  Translations translations_;
};

}  // namespace pw::frontend
