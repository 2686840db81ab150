package streams

// MaxLogReply is the size in bytes after which a reply with commits ends.
const MaxLogReply = maxLogReply
