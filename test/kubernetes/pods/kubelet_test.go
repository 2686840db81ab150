package pods_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	core "k8s.io/api/core/v1"
)

// pod is a pod with one container.
type pod struct {
	spec    core.PodSpec
	root    string // its root file system
	logFile string
	process *exec.Cmd
	done    chan struct{} // closed when the process has ended
}

func (p *pod) container() core.Container { return p.spec.Containers[0] }

// build makes the root file system of a pod as the image has it, and mounts the volumes as a
// kubelet does: the group of a volume is fsGroup.
func build(t *testing.T, dir, tools string, spec core.PodSpec, secrets map[string]map[string][]byte) *pod {
	t.Helper()
	p := &pod{spec: spec, root: filepath.Join(dir, "root"), logFile: filepath.Join(dir, "log")}
	group := int(*spec.SecurityContext.FSGroup)
	for _, d := range []string{"root/proc", "root/etc", "root/tmp", "root/var/lib", "volumes"} {
		succeed(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	program, err := os.ReadFile(filepath.Join(tools, "coppice"))
	succeed(t, err)
	succeed(t, os.WriteFile(filepath.Join(p.root, "coppice"), program, 0o755))
	volumes := map[string]string{}
	for _, v := range spec.Volumes {
		at := filepath.Join(dir, "volumes", v.Name)
		volumes[v.Name] = at
		succeed(t, os.Mkdir(at, 0o755))
		if v.Secret == nil {
			succeed(t, os.Chown(at, 0, group))
			succeed(t, os.Chmod(at, 0o775|os.ModeSetgid))
			continue
		}
		for _, item := range v.Secret.Items {
			text, ok := secrets[v.Secret.SecretName][item.Key]
			if !ok {
				t.Fatalf("no key %s in secret %s", item.Key, v.Secret.SecretName)
			}
			file := filepath.Join(at, item.Path)
			succeed(t, os.WriteFile(file, text, 0o600))
			succeed(t, os.Chown(file, 0, group))
			succeed(t, os.Chmod(file, os.FileMode(*v.Secret.DefaultMode)))
		}
	}
	for _, m := range p.container().VolumeMounts {
		succeed(t, os.MkdirAll(filepath.Join(p.root, m.MountPath), 0o755))
	}
	bind(t, p.root, p.root, *p.container().SecurityContext.ReadOnlyRootFilesystem)
	bind(t, "/proc", filepath.Join(p.root, "proc"), false)
	for _, m := range p.container().VolumeMounts {
		bind(t, volumes[m.Name], filepath.Join(p.root, m.MountPath), m.ReadOnly)
	}
	return p
}

// bind mounts a directory at another place, in the namespace of this test.
func bind(t *testing.T, from, to string, readOnly bool) {
	t.Helper()
	succeed(t, syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""))
	if readOnly {
		succeed(t, syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}
	t.Cleanup(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
}

// command returns a command in the container.
func (p *pod) command(args ...string) *exec.Cmd {
	c := exec.Command("/coppice", args...)
	c.Dir = "/"
	c.Env = []string{"PATH=/", "HOSTNAME=" + filepath.Base(filepath.Dir(p.root))}
	for _, e := range p.container().Env {
		c.Env = append(c.Env, e.Name+"="+e.Value)
	}
	s := p.spec.SecurityContext
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{
		Uid: uint32(*s.RunAsUser), Gid: uint32(*s.RunAsGroup), Groups: []uint32{uint32(*s.FSGroup)},
	}}
	return c
}

// start starts the container.
func (p *pod) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	succeed(t, err)
	defer log.Close()
	c, done := p.command(p.container().Args...), make(chan struct{})
	c.Stdout, c.Stderr = log, log
	succeed(t, c.Start())
	go func() { _ = c.Wait(); close(done) }()
	p.process, p.done = c, done
	t.Cleanup(func() { _ = c.Process.Kill(); <-done })
}

// exec runs a command in the container, which must succeed.
func (p *pod) exec(t *testing.T, args ...string) {
	t.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		t.Errorf("%s: coppice %v: %v: %s", p.container().Name, args, err, out)
	}
}

func (p *pod) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *pod) log() string {
	text, _ := os.ReadFile(p.logFile)
	return string(text)
}
