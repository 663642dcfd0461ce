#include "pathways/base/process/thread_stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pw {
namespace {

constexpr int kMostFrames = 48;
constexpr int kOwnFrames = 2;  // of the handler, and of the return from it
constexpr size_t kMostThreads = 256;
constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kMostStackBytes = size_t{kMostFrames} * 320;
constexpr int64_t kPatienceNanoseconds = 100'000'000;  // for one thread
constexpr auto kNamesTime =
    std::chrono::milliseconds(500);  // for the names that the linker does not have: a search of a file each
constexpr char kCut[] = "... (more threads)\n";

int Signal() { return SIGRTMIN + 7; }

// The place where an interrupted thread notes its stack.
struct Note {
  std::atomic<uint64_t> question{0};  // the number of the question that waits for an answer; 0: none
  void* frames[kMostFrames];
  int depth = 0;
  sem_t noted;
};

Note& TheNote() {
  static Note* const note = [] {
    auto* made = new Note;
    ::sem_init(&made->noted, 0, 0);
    return made;
  }();
  return *note;
}

void OnSignal(int, siginfo_t* info, void*) {
  const int error = errno;
  Note& note = TheNote();
  auto question = reinterpret_cast<uint64_t>(info->si_value.sival_ptr);
  if (info->si_code == SI_QUEUE && question != 0 && note.question.compare_exchange_strong(question, 0)) {
    note.depth = ::backtrace(note.frames, kMostFrames);
    ::sem_post(&note.noted);
  }
  errno = error;
}

// Prepares what the handler must not do first: the first backtrace loads a library.
void Prepare() {
  void* frames[1];
  ::backtrace(frames, 1);
  TheNote();
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(Signal(), &action, nullptr);
}

bool WaitUntilNoted(sem_t* noted) {
  timespec limit = {};
  ::clock_gettime(CLOCK_MONOTONIC, &limit);
  limit.tv_nsec += kPatienceNanoseconds;
  limit.tv_sec += limit.tv_nsec / 1'000'000'000;
  limit.tv_nsec %= 1'000'000'000;
  while (::sem_clockwait(noted, CLOCK_MONOTONIC, &limit) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// Returns the addresses on the thread's stack, the innermost first; empty: it does not answer.
std::vector<void*> StackOf(pid_t thread, uint64_t question) {
  Note& note = TheNote();
  siginfo_t info = {};
  info.si_signo = Signal();
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(question);
  note.question.store(question);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, Signal(), &info) != 0) {
    note.question.store(0);  // it has ended
    return {};
  }
  if (!WaitUntilNoted(&note.noted)) {
    uint64_t expected = question;
    if (note.question.compare_exchange_strong(expected, 0)) return {};
    while (::sem_wait(&note.noted) != 0) {
    }  // it is noting
  }
  if (note.depth <= kOwnFrames) return {};
  return std::vector<void*>(note.frames + kOwnFrames, note.frames + note.depth);  // not {}: that would be a list of two
}

std::string FileName(const char* path) {
  const char* slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path != nullptr ? path : "?";
}

// `symbolize`: may be null.
std::string LineOf(void* address, const Symbolize& symbolize) {
  const auto* call = static_cast<const char*>(address) - 1;  // the address is where the call returns to
  Dl_info found = {};
  const bool known = ::dladdr(call, &found) != 0;
  char name[256] = "";
  if (symbolize && symbolize(call, name, sizeof(name))) return absl::StrCat("  ", name, "  (", FileName(found.dli_fname), ")\n");
  if (known && found.dli_sname != nullptr) return absl::StrCat("  ", found.dli_sname, "  (", FileName(found.dli_fname), ")\n");
  const auto offset =
      known ? static_cast<uint64_t>(call - static_cast<const char*>(found.dli_fbase)) : reinterpret_cast<uint64_t>(call);
  return absl::StrCat("  0x", absl::Hex(offset), "  (", FileName(found.dli_fname), ")\n");
}

// Whether the thread blocks our signal, so that asking it is a waste of time: allocators' own threads do.
bool BlocksTheSignal(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/status"));
  for (std::string line; std::getline(file, line);) {
    uint64_t blocked = 0;
    if (absl::StartsWith(line, "SigBlk:") && absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line.substr(7)), &blocked))
      return (blocked >> (Signal() - 1) & 1) != 0;
  }
  return false;
}

std::string NameOf(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<pid_t> ListThreads() {
  std::vector<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end; it.increment(error)) {
    pid_t thread = 0;
    if (absl::SimpleAtoi(it->path().filename().string(), &thread) && threads.size() < kMostThreads) threads.push_back(thread);
  }
  return threads;
}

}  // namespace

std::string StacksOfThreads(const Symbolize& symbolize) {
  static std::mutex* const one_at_a_time = new std::mutex;
  static uint64_t last_question = 0;
  const std::lock_guard lock(*one_at_a_time);
  Prepare();
  std::map<std::vector<void*>, std::vector<std::string>> threads;  // by stack
  for (const pid_t thread : ListThreads()) {
    threads[BlocksTheSignal(thread) ? std::vector<void*>() : StackOf(thread, ++last_question)].push_back(
        absl::StrCat(NameOf(thread), " ", thread));
  }
  std::string text;
  std::map<void*, std::string> lines;  // by address: threads of a pool share most
  const auto limit = std::chrono::steady_clock::now() + kNamesTime;
  for (const auto& [stack, names] : threads) {
    if (text.size() > kMostBytes - kMostStackBytes) return text + kCut;
    absl::StrAppend(&text, absl::StrJoin(names, ", "), ":\n");
    if (stack.empty()) absl::StrAppend(&text, "  (does not answer)\n");
    for (void* const address : stack) {
      const auto [line, is_new] = lines.try_emplace(address);
      if (is_new) line->second = LineOf(address, std::chrono::steady_clock::now() < limit ? symbolize : Symbolize());
      absl::StrAppend(&text, line->second);
    }
  }
  return text;
}

}  // namespace pw
