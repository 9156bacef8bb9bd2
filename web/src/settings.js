// The words before each command. Empty in the package; a test of programs that are not installed
// writes its own file.
export const PREFIX = [];
