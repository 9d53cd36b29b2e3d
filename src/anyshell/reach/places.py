"""Default path lists of a reach: hidden, protected, readable and private paths."""

from __future__ import annotations


def _listed(text: str) -> tuple[str, ...]:
    """Split a text into paths without spaces, and skip its comment lines."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return tuple(path for line in lines for path in line.split())


SECRETS = (
    *_listed("""
    # Keys and logins of programs.
    ~/.ssh ~/.gnupg ~/.password-store ~/.local/share/keyrings ~/.local/share/kwalletd ~/.pki
    ~/.netrc ~/.git-credentials ~/.config/git/credentials ~/.pgpass ~/.my.cnf ~/.vault-token
    ~/.npmrc ~/.yarnrc.yml ~/.pypirc ~/.gem/credentials ~/.cargo/credentials ~/.cargo/credentials.toml
    ~/.m2/settings.xml ~/.gradle/gradle.properties ~/.config/pip/pip.conf ~/.config/containers/auth.json
    # Clouds.
    ~/.aws ~/.azure ~/.kube ~/.docker ~/.config/gcloud ~/.config/gh ~/.config/glab-cli ~/.config/doctl
    ~/.config/op ~/.config/rclone ~/.config/sops ~/.terraform.d ~/.terraformrc ~/.oci ~/.fly ~/.s3cfg
    # Browsers and mail.
    ~/.mozilla ~/.thunderbird ~/.config/google-chrome ~/.config/chromium ~/.config/BraveSoftware
    ~/.config/microsoft-edge ~/.config/vivaldi ~/.config/opera ~/snap/firefox ~/snap/chromium
    ~/.var/app ~/.config/Signal ~/.config/Slack ~/.config/discord
    # Agents: their logins, and what they are told to do.
    ~/.claude ~/.claude.json ~/.codex ~/.cursor ~/.gemini ~/.continue ~/.aider.conf.yml ~/.config/goose
    ~/.config/github-copilot ~/.config/opencode ~/.config/anyshell ~/.config/io.datasette.llm
    ~/.cache/huggingface/token
    # Files of typed commands.
    ~/.bash_history ~/.zsh_history ~/.python_history ~/.psql_history ~/.mysql_history ~/.node_repl_history
    ~/.local/share/fish/fish_history
    # macOS.
    ~/Library/Keychains ~/Library/Cookies
    """),
    *("~/Library/Application Support/Google", "~/Library/Application Support/Firefox"),
    *_listed("""
    # The system's own.
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private
    /etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ed25519_key
    /etc/rancher /etc/kubernetes /var/lib/docker /var/lib/containerd /var/lib/kubelet
    """),
)
"""Paths that `Reach` hides by default: keys, logins, browser profiles, histories, and the configuration of other agents."""

PROTECTED = _listed("""
    # Below each directory that may be written: what git, editors and agents run later, outside of any reach.
    .git/hooks .git/config .git/config.worktree .git/info/attributes
    .claude .codex .cursor .gemini .mcp.json .vscode .idea .envrc .devcontainer
    # Where the home directory may be written: what shells and the session of the user read when they start.
    ~/.bashrc ~/.bash_profile ~/.bash_login ~/.bash_logout ~/.profile ~/.bash_aliases
    ~/.zshrc ~/.zshenv ~/.zprofile ~/.zlogin ~/.zlogout ~/.config/fish ~/.inputrc ~/.pam_environment
    ~/.xprofile ~/.xsession ~/.xinitrc ~/.config/autostart ~/.config/systemd ~/.config/environment.d
    ~/.gitconfig ~/.config/git ~/.vimrc ~/.vim ~/.config/nvim ~/.emacs ~/.emacs.d ~/.tmux.conf
    ~/.local/bin ~/bin ~/.pythonrc ~/.config/pip ~/.cargo/config.toml ~/.crontab
""")
"""Paths that `Reach` protects by default: files in writable directories from which other programs take commands. A relative
path is placed below each writable directory."""

SYSTEM = _listed("""
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix/store /gnu/store
    /run/current-system /var/lib/dpkg /sys
""")
"""Paths that every command may read, since programs do not start without them."""

PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 - a command gets its own
"""Directories that a command sees as its own empty ones: the real ones have other programs' temporary files and sockets."""
