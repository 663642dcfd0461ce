#include "plugins/pjrt_cpu/programs/contained.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <string>

#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

// Declared in LLVM headers that the wheel lacks.
namespace llvm {
using fatal_error_handler_t = void (*)(void* user_data, const char* reason, bool generate_crash_diagnostics);
void install_fatal_error_handler(fatal_error_handler_t handler, void* user_data);
}  // namespace llvm

namespace pw::pjrt_cpu {
namespace {

// Large, because the compiler recurses deeply on deep programs. Unused pages cost only address space.
constexpr size_t kStackBytes = size_t{64} << 20;

struct Attempt {
  explicit Attempt(absl::FunctionRef<void()> work) : work(work) {}
  absl::FunctionRef<void()> work;
  absl::Notification ended;
  std::string gave_up;
};

thread_local Attempt* current = nullptr;

// Stops the calling thread forever if it runs contained work; else returns.
void GiveUp(std::string reason) {
  Attempt* attempt = std::exchange(current, nullptr);
  if (attempt == nullptr) return;
  attempt->gave_up = std::move(reason);
  attempt->ended.Notify();
  for (;;) pause();
}

class FatalSink : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    if (entry.log_severity() == absl::LogSeverity::kFatal) GiveUp(std::string(entry.text_message_with_prefix()));
  }
};

void ListenForFatalErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    absl::AddLogSink(new FatalSink);  // never freed
    llvm::install_fatal_error_handler([](void*, const char* reason, bool) { GiveUp(reason); }, nullptr);
  });
}

void* Run(void* arg) {
  // Shared with the caller, which may have returned when this function ends.
  std::shared_ptr<Attempt> attempt =
      std::move(*std::unique_ptr<std::shared_ptr<Attempt>>(static_cast<std::shared_ptr<Attempt>*>(arg)));
  current = attempt.get();
  attempt->work();
  current = nullptr;
  attempt->ended.Notify();
  return nullptr;
}

}  // namespace

absl::Status RunContained(absl::FunctionRef<void()> work) {
  ListenForFatalErrors();
  auto attempt = std::make_shared<Attempt>(work);
  auto arg = std::make_unique<std::shared_ptr<Attempt>>(attempt);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Run, arg.get());
  pthread_attr_destroy(&attributes);
  if (error != 0) return absl::ResourceExhaustedError(absl::StrCat("no thread for the compiler: error ", error));
  arg.release();  // NOLINT: Run() owns it
  attempt->ended.WaitForNotification();
  if (attempt->gave_up.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the compiler gave up on this program: ", attempt->gave_up,
                                          "\nIt is XLA's own check that failed; programs newer than the device runtime's XLA are "
                                          "a common cause. Nothing else is affected"));
}

}  // namespace pw::pjrt_cpu
