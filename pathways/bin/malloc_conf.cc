// jemalloc's configuration, read when a process of ours starts: its background thread returns idle memory to the system.
// MALLOC_CONF in the environment adds to it.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}
