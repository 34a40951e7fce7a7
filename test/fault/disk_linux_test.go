package fault_test

import "syscall"

// mount makes a disk of 8 MB at the folder.
func mount(dir string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=755")
}

// unmount takes it away, whoever still has a file of it open.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
