package org.apache.spark.internal.io.cloud;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.OutputCommitter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.internal.io.HadoopMapReduceCommitProtocol;
import scala.Option;

/**
 * Lets Spark SQL write through the committer of the target file system. Stands in for the class of
 * the same name in Spark's module hadoop-cloud, which pyspark doesn't contain.
 */
public class PathOutputCommitProtocol extends HadoopMapReduceCommitProtocol {
    private final String destination;
    private transient PathOutputCommitter committer;

    public PathOutputCommitProtocol(String job, String destination, boolean overwritePartitions) {
        super(job, destination, false);
        if (overwritePartitions) {
            throw new UnsupportedOperationException("partitionOverwriteMode=dynamic");
        }
        this.destination = destination;
    }

    @Override
    public OutputCommitter setupCommitter(TaskAttemptContext context) {
        try {
            committer = PathOutputCommitterFactory.createCommitter(new Path(destination), context);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        return committer;
    }

    @Override
    public String newTaskTempFile(TaskAttemptContext context, Option<String> folder, FileNameSpec spec) {
        try {
            Path parent = committer.getWorkPath();
            if (folder.isDefined()) {
                parent = new Path(parent, folder.get());
            }
            return new Path(parent, getFilename(context, spec)).toString();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
