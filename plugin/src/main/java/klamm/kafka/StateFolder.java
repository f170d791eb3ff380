package klamm.kafka;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder of state files. Who can write to it can make anybody a super user until Klamm is reached, so it must be
 * this user's alone, as far as the file system knows of users.
 */
final class StateFolder {
    private static final Logger LOG = LoggerFactory.getLogger(StateFolder.class);
    private static final Integer ROOT = 0;
    private static final FileAttribute<?>[] NO_ATTRIBUTES = {};
    private static final FileAttribute<?>[] OWNER_ONLY =
        {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))};

    private final Path path;
    private final boolean isGroupTrusted;
    private final boolean isPosix;
    /** This user, as the file system calls it; null if it does not know users. */
    private final UserPrincipal user;

    /** Raises IOException unless the folder is this user's alone. */
    StateFolder(Settings.State state) throws IOException {
        this.path = state.folder();
        this.isGroupTrusted = state.isGroupTrusted();
        if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
            throw new IOException(path + " is a link, or no folder");
        }
        this.isPosix = Files.getFileStore(path).supportsFileAttributeView("posix");
        this.user = isPosix ? owner(path) : null;
        if (isPosix) {
            restrict();
        }
    }

    /** Who owns what this process creates. Names of users are no help in a container. */
    private static UserPrincipal owner(Path folder) throws IOException {
        Path made = Files.createTempFile(folder, "owner-", null);
        try {
            return Files.getOwner(made);
        } finally {
            Files.delete(made);
        }
    }

    private void restrict() throws IOException {
        Set<PosixFilePermission> rights = new HashSet<>(facts(path).permissions());
        boolean isRoots = ROOT.equals(Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS));
        boolean isOurs = facts(path).owner().equals(user);
        if (!isOurs && !isRoots || rights.contains(PosixFilePermission.OTHERS_WRITE)) {
            throw new IOException(path + " belongs to another user, or others can write to it");
        }
        if (isGroupTrusted || !rights.remove(PosixFilePermission.GROUP_WRITE)) {
            return;
        }
        Files.setPosixFilePermissions(path, rights);
        LOG.warn("the group of {} could write to it, and no longer can; where it is trusted, set "
            + "klamm.state.group.writable=true", path);
    }

    private static PosixFileAttributes facts(Path file) throws IOException {
        return Files.readAttributes(file, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    }

    Path file(String name) {
        return path.resolve(name);
    }

    /** Raises IOException for a link, NoSuchFileException without a file that is to be read. */
    FileChannel open(Path file, OpenOption... options) throws IOException {
        Set<OpenOption> all = new HashSet<>(List.of(options));
        all.add(LinkOption.NOFOLLOW_LINKS);
        return FileChannel.open(file, all, isPosix ? OWNER_ONLY : NO_ATTRIBUTES);
    }

    /** Raises FeedException for a file that others may have written. */
    void check(Path file) throws IOException, FeedException {
        if (!isPosix) {
            return;
        }
        PosixFileAttributes facts = facts(file);
        Set<PosixFilePermission> rights = facts.permissions();
        if (!facts.isRegularFile() || !facts.owner().equals(user)) {
            throw new FeedException(file + " is a link, or belongs to another user");
        }
        if (rights.contains(PosixFilePermission.OTHERS_WRITE)
            || !isGroupTrusted && rights.contains(PosixFilePermission.GROUP_WRITE)) {
            throw new FeedException(file + " can be written to by others; remove that right");
        }
    }

    /** Makes what has happened to the names of its files last, even after a power failure. */
    void sync() throws IOException {
        try (FileChannel folder = FileChannel.open(path)) {
            folder.force(true);
        }
    }
}
